"use strict";
const figures = JSON.parse(document.getElementById("figures").textContent);
const darkness = window.matchMedia("(prefers-color-scheme: dark)");
const printing = window.matchMedia("print");
const options = { responsive: true, displayModeBar: false };
const printWidth = 640;

function themed(layout, isDark) {
  const text = isDark ? "#e6ebf0" : "#1c2530";
  const grid = isDark ? "#2c3640" : "#dfe4ea";
  const axis = { gridcolor: grid, zerolinecolor: grid, linecolor: grid, tickfont: { color: text } };
  return {
    ...layout,
    font: { color: text, family: "system-ui, -apple-system, 'Segoe UI', Roboto, Arial, sans-serif", size: 13 },
    hoverlabel: { font: { family: "system-ui, sans-serif" } },
    xaxis: { ...layout.xaxis, ...axis },
    yaxis: { ...layout.yaxis, ...axis },
  };
}

function draw(isDark, width) {
  for (const [name, figure] of Object.entries(figures)) {
    const layout = themed(figure.layout, isDark);
    if (width) layout.width = width;
    Plotly.react("chart-" + name, figure.data, layout, options);
  }
}

function drawForScreen() { draw(darkness.matches); }
function drawForPrint() { draw(false, printWidth); }

if (printing.matches) drawForPrint(); else drawForScreen();
darkness.addEventListener("change", drawForScreen);
printing.addEventListener("change", (event) => (event.matches ? drawForPrint() : drawForScreen()));
window.addEventListener("beforeprint", drawForPrint);
window.addEventListener("afterprint", drawForScreen);

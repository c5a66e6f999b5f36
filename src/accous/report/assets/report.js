// Draws the report's charts, again when the width changes, and for print.

const { figures } = JSON.parse(document.getElementById("figures").textContent);
const printWidth = 640;

let lastWidth = 0;
function drawForScreen() {
  const width = document.documentElement.clientWidth;
  if (width !== lastWidth) drawAll(figures);
  lastWidth = width;
}
function drawForPrint() { lastWidth = 0; drawAll(figures, printWidth); }

const printing = window.matchMedia("print");
if (printing.matches) drawForPrint(); else drawForScreen();
window.addEventListener("resize", () => { if (!printing.matches) drawForScreen(); });
printing.addEventListener("change", (event) => (event.matches ? drawForPrint() : drawForScreen()));
window.addEventListener("beforeprint", drawForPrint);
window.addEventListener("afterprint", drawForScreen);

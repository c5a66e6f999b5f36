"use strict";
// Draws charts as SVG, as wide as their place on the page. Colours are those of the style sheet.

const characterWidth = 7.2; // of a label, in pixels
const labelGap = 12;
const svgNames = "http://www.w3.org/2000/svg";

function make(parent, tag, attributes, text) {
  const node = document.createElementNS(svgNames, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  parent.appendChild(node);
  return node;
}

function div(parent, className, text) {
  const node = document.createElement("div");
  node.className = className;
  if (text !== undefined) node.textContent = text;
  parent.appendChild(node);
  return node;
}

// --- scales and numbers ---

function scale(from, to, start, end) {
  const span = to - from || 1;
  return (value) => start + ((value - from) / span) * (end - start);
}

function niceStep(span, most) {
  const raw = span / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(raw));
  return [1, 2, 5, 10].map((one) => one * power).find((one) => one >= raw * 0.999);
}

function numberTicks(from, to, most) {
  if (!(to > from)) return [from];
  const step = niceStep(to - from, most);
  const ticks = [];
  for (let k = Math.ceil(from / step - 1e-9); k * step <= to + 1e-9 * step; k++) ticks.push(k * step);
  return ticks;
}

const timeSteps = [1, 5, 15, 30, 60, 300, 900, 1800, 3600, 10800, 21600, 43200, 86400, 172800, 604800, 1209600];
const day = 86400;

function timeTicks(from, to, most) {
  const raw = (to - from) / most;
  const step = timeSteps.find((one) => one >= raw);
  if (step) return range(Math.ceil(from / step) * step, to, step).map((at) => [at, timeText(at, step)]);
  const months = [1, 2, 3, 6, 12, 24, 60, 120, 240].find((one) => one * 30.4 * day >= 0.8 * raw) || 600;
  const first = new Date(from * 1000);
  const ticks = [];
  let month = Math.ceil((first.getUTCFullYear() * 12 + first.getUTCMonth()) / months) * months;
  for (; ; month += months) {
    const at = Date.UTC(Math.floor(month / 12), month % 12, 1) / 1000;
    if (at > to) return ticks;
    if (at >= from) ticks.push([at, timeText(at, months * 30 * day)]);
  }
}

function range(from, to, step) {
  const values = [];
  for (let value = from; value <= to; value += step) values.push(value);
  return values;
}

function timeText(seconds, step) {
  const text = new Date(seconds * 1000).toISOString();
  if (step >= 360 * day) return text.slice(0, 4);
  if (step >= 28 * day) return text.slice(0, 7);
  if (step >= day) return text.slice(0, 10);
  return step >= 60 ? text.slice(5, 16).replace("T", " ") : text.slice(11, 19);
}

function numberText(value, isPercent) {
  if (isPercent) return (100 * value).toFixed(Math.abs(value) < 0.1 ? 1 : 0).replace(/\.0$/, "") + "%";
  return Math.abs(value) >= 100 ? Math.round(value).toLocaleString("en") : String(+value.toPrecision(3));
}

// --- frames of charts ---

function legend(place, series) {
  const list = div(place, "legend");
  for (const one of series) {
    const entry = div(list, "entry");
    div(entry, `key ${one.kind} ${one.colour}`);
    entry.appendChild(document.createTextNode(one.name));
  }
}

function canvas(place, width, height, label) {
  const svg = make(place, "svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  return svg;
}

function ticksThatFit(axis, box, x) {
  // Fewer ticks until no two labels touch; the steps of a calendar are too uneven to compute the number.
  const [from, to] = axis.range;
  for (let most = Math.max(2, Math.floor((box.right - box.left) / 60)); ; most--) {
    const ticks = axis.kind === "time" ? timeTicks(from, to, most) : numberTicks(from, to, most).map((at) => [at, numberText(at)]);
    const labels = ticks.map(([tick, text]) => label(x(tick), text, box));
    if (labels.every((one, k) => !k || one.left >= labels[k - 1].right + labelGap)) return labels;
    if (most === 1) return labels.slice(0, 1);
  }
}

function label(at, text, box) {
  const width = characterWidth * text.length;
  const isLast = at + width / 2 > box.right;
  const right = isLast ? at : at + width / 2;
  return { at, text, anchor: isLast ? "end" : "middle", left: right - width, right };
}

function xAxis(svg, axis, box, x) {
  for (const { at, text, anchor } of ticksThatFit(axis, box, x)) {
    make(svg, "line", { class: "tick", x1: at, x2: at, y1: box.bottom, y2: box.bottom + 5 });
    make(svg, "text", { x: at, y: box.bottom + 19, "text-anchor": anchor }, text);
  }
  make(svg, "line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom });
  make(svg, "text", { class: "title", x: box.right, y: box.bottom + 37, "text-anchor": "end" }, axis.title);
}

function yGrid(svg, axis, box, y) {
  for (const tick of numberTicks(...axis.range, 5)) {
    make(svg, "line", { class: "grid", x1: box.left, x2: box.right, y1: y(tick), y2: y(tick) });
    make(svg, "text", { x: box.left - 7, y: y(tick) + 4, "text-anchor": "end" }, numberText(tick, axis.percent));
  }
}

function path(xs, ys) {
  // A line has gaps where its values are null.
  const isDrawn = (k) => ys[k] !== null;
  return xs.map((x, k) => isDrawn(k) ? `${k && isDrawn(k - 1) ? "L" : "M"}${x.toFixed(1)},${ys[k].toFixed(1)}` : "").join("");
}

function isAlone(ys, k) {
  const isDrawn = (at) => at >= 0 && at < ys.length && ys[at] !== null;
  return isDrawn(k) && !isDrawn(k - 1) && !isDrawn(k + 1);
}

// --- kinds of charts ---

function drawLines(place, figure, width) {
  const marks = figure.events.length ? [{ kind: "marks", colour: "event", name: "change in the inputs" }] : [];
  legend(place, [...figure.series, ...figure.levels.map((one) => ({ ...one, kind: "level" })), ...marks]);
  div(place, "y-title", figure.y.title);
  const box = { left: 54, right: width - 10, top: 8, bottom: 228 };
  const svg = canvas(place, width, 272, figure.label);
  const x = scale(...figure.x.range, box.left, box.right);
  const y = scale(...figure.y.range, box.bottom, box.top);
  yGrid(svg, figure.y, box, y);
  for (const at of figure.events) {
    make(svg, "line", { class: "mark", x1: x(at), x2: x(at), y1: box.top, y2: box.bottom });
  }
  for (const one of figure.levels) {
    make(svg, "line", { class: `level ${one.colour}`, x1: box.left, x2: box.right, y1: y(one.y), y2: y(one.y) });
  }
  for (const one of figure.series) drawSeries(svg, one, one.x.map(x), y);
  xAxis(svg, figure.x, box, x);
  hover(place, svg, (at) => linesAt(figure, x, at), box);
}

function drawSeries(svg, one, xs, y) {
  const ys = one.y.map((value) => (value === null ? null : y(value)));
  if (one.kind === "line") make(svg, "path", { class: `line ${one.colour}`, d: path(xs, ys) });
  xs.forEach((at, k) => {
    if (one.low) make(svg, "line", { class: `whisker ${one.colour}`, x1: at, x2: at, y1: y(one.low[k]), y2: y(one.high[k]) });
    if (one.kind === "dots" || isAlone(ys, k)) make(svg, "circle", { class: `dot ${one.colour}`, cx: at, cy: ys[k], r: 3 });
  });
}

function nearest(xs, x, at) {
  let best = 0;
  xs.forEach((value, k) => { if (Math.abs(x(value) - at) < Math.abs(x(xs[best]) - at)) best = k; });
  return best;
}

function linesAt(figure, x, at) {
  // Each place on the axis has what was read there: of the line, of labels, or of both.
  const places = [...new Set(figure.series.flatMap((one) => one.x))];
  const here = places[nearest(places, x, at)];
  const lines = [placeText(figure.x, here)];
  for (const one of figure.series) {
    const k = one.x.indexOf(here);
    if (k < 0 || one.y[k] === null) continue;
    const between = one.low ? ` (${numberText(one.low[k], figure.y.percent)} to ${numberText(one.high[k], figure.y.percent)})` : "";
    lines.push(`${one.name}: ${numberText(one.y[k], figure.y.percent)}${between}`);
  }
  return { at: x(here), lines };
}

function placeText(axis, value) {
  if (axis.kind === "time") return "around " + new Date(value * 1000).toISOString().slice(0, 16).replace("T", " ");
  return `around round ${Math.round(value).toLocaleString("en")}`;
}

function drawSpread(place, figure, width) {
  // One column, then and now: a histogram of numbers, or bars of categories.
  const head = div(place, "spread-head");
  div(head, "spread-name", figure.name);
  div(head, "spread-share", numberText(figure.share, true));
  legend(place, [
    { kind: "bars", colour: "event", name: "reference" },
    { kind: "bars", colour: "adapted", name: `last ${count(figure.n[1])} rows` },
  ]);
  if (figure.edges) drawHistogram(place, figure, width);
  else drawBars(place, figure);
}

function count(number) { return number.toLocaleString("en"); }

function drawHistogram(place, figure, width) {
  const box = { left: 2, right: width - 2, top: 4, bottom: 84 };
  const { edges } = figure;
  const svg = canvas(place, width, 104, `${figure.name}, reference and recent rows`);
  const x = scale(edges[0], edges[edges.length - 1], box.left, box.right);
  const y = scale(0, Math.max(1e-9, ...figure.then, ...figure.now), box.bottom, box.top);
  figure.then.forEach((share, k) => {
    const left = x(edges[k]);
    make(svg, "rect", { class: "then", x: left, y: y(share), width: Math.max(1, x(edges[k + 1]) - left - 1), height: box.bottom - y(share) });
  });
  const steps = figure.now.map((share, k) => `${k ? "L" : "M"}${x(edges[k]).toFixed(1)},${y(share).toFixed(1)}L${x(edges[k + 1]).toFixed(1)},${y(share).toFixed(1)}`);
  make(svg, "path", { class: "line adapted", d: steps.join("") });
  make(svg, "line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom });
  const ends = figure.isWhole ? [edges[0] + 0.5, edges[edges.length - 1] - 0.5] : [edges[0], edges[edges.length - 1]];
  make(svg, "text", { x: box.left, y: box.bottom + 16 }, numberText(ends[0]));
  make(svg, "text", { x: box.right, y: box.bottom + 16, "text-anchor": "end" }, numberText(ends[1]));
  const [then, now] = figure.means;
  if (then !== null && now !== null) div(place, "spread-note", `mean ${numberText(then)} → ${numberText(now)}`);
  if (Math.max(...figure.missing) > 0) {
    div(place, "spread-note", `missing ${figure.missing.map((share) => numberText(share, true)).join(" → ")}`);
  }
}

function drawBars(place, figure) {
  // Plain elements: the names wrap, and the chart needs no size.
  const table = div(place, "bars");
  const most = Math.max(1e-9, ...figure.then, ...figure.now);
  figure.names.forEach((name, k) => {
    div(table, "bar-name", name);
    const bars = div(table, "bar-group");
    for (const [colour, value] of [["event", figure.then[k]], ["adapted", figure.now[k]]]) {
      const row = div(bars, "bar-row");
      div(row, `bar ${colour}`).style.width = `${(75 * value) / most}%`;
      div(row, "bar-value", numberText(value, true));
    }
  });
}

// --- what the pointer shows ---

function hover(place, svg, read, box) {
  const tip = div(place, "tip");
  const line = make(svg, "line", { class: "pointer", y1: box.top, y2: box.bottom });
  const hide = () => { tip.style.display = line.style.display = "none"; };
  hide();
  svg.addEventListener("pointermove", (event) => {
    const frame = svg.getBoundingClientRect();
    const { at, lines } = read(event.clientX - frame.left);
    tip.replaceChildren(...lines.map((text) => Object.assign(document.createElement("p"), { textContent: text })));
    tip.style.display = line.style.display = "block";
    line.setAttribute("x1", at);
    line.setAttribute("x2", at);
    const free = frame.width - tip.offsetWidth;
    tip.style.left = `${Math.max(0, Math.min(free, at > frame.width / 2 ? at - tip.offsetWidth - 12 : at + 12))}px`;
    tip.style.top = `${svg.offsetTop || svg.parentNode.clientHeight - frame.height + 8}px`;
  });
  svg.addEventListener("pointerleave", hide);
}

// --- all charts of a page ---

const kinds = { lines: drawLines, spread: drawSpread };

function drawAll(figures, width) {
  for (const [name, figure] of Object.entries(figures)) {
    const place = document.getElementById("chart-" + name);
    place.replaceChildren();
    kinds[figure.kind](place, figure, Math.max(200, place.clientWidth ? Math.min(place.clientWidth, width || Infinity) : width));
  }
}

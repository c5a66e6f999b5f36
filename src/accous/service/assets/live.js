"use strict";
// Shows what the service says of its model, and goes on by itself when the service starts again.

const byId = (id) => document.getElementById(id);
let view = null;
let figures = {};
let isFetching = false;
let isStale = false;

// --- from values to the page; every text goes in as text, never as HTML ---

function element(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

function setText(id, text) {
  const node = byId(id);
  if (node.textContent !== text) node.textContent = text; // a screen reader hears only what is new
}

function count(number, noun) { return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`; }

function fill(id, nodes) { byId(id).replaceChildren(...nodes); }

function table(headings, rows) {
  const made = element("table");
  const head = made.createTHead().insertRow();
  for (const text of headings) {
    const cell = element("th", "", text);
    cell.scope = "col";
    head.appendChild(cell);
  }
  const body = made.createTBody();
  for (const row of rows) {
    const line = body.insertRow();
    row.forEach((text) => line.appendChild(element("td", text.length > 24 ? "long" : "", text)));
  }
  return made;
}

function show(next) {
  const before = view;
  view = { ...next, at: performance.now() };
  if (before) speed = 1000 * (view.rounds - before.rounds) / Math.max(1, view.at - before.at);
  byId("shown").hidden = false;
  setText("facts", `${count(next.rounds, "round")}, ${count(next.rows, "row")}, compared with ` +
    `${count(next.reference_rows, "labelled reference row")}`);
  showStatus(next);
  showTiles();
  showMoved(next.moved);
  showChanges(next.changes, before);
  byId("part-learned").hidden = !next.learned.rows.length;
  setText("learned-note", next.learned.note);
  fill("learned", [table(next.learned.headings, next.learned.rows)]);
  byId("part-findings").hidden = !next.findings.length;
  fill("findings", next.findings.map((text) => element("li", "", text)));
  setText("chart-note", next.chart_note);
  showChart(next.chart);
}

function showStatus({ state, tone, headline, notes, alarm, reasons, advice }) {
  byId("status").className = `verdict ${alarm ? "bad" : tone}`;
  setText("badge", state);
  setText("headline", headline);
  setText("alarm", alarm);
  byId("alarm").hidden = !alarm;
  setText("advice", advice);
  document.title = `${state}: ${view.name} – accous`;
  fill("notes", notes.map((text) => element("p", "", text)));
  fill("reasons", reasons.map((text) => element("li", "", text)));
}

let speed = null; // rounds a second, between the last two views

function showTiles() {
  const tiles = [...view.tiles];
  if (speed !== null) {
    const value = speed.toLocaleString("en", { maximumFractionDigits: 1 });
    tiles.push({ name: "throughput", value, note: "rounds a second" });
  }
  fill("tiles", tiles.map(({ name, value, note }) => {
    const tile = element("div");
    tile.append(element("span", "", name), element("strong", "", value));
    if (note) tile.appendChild(element("small", "", note));
    return tile;
  }));
}

function showMoved(rows) {
  byId("part-moved").hidden = !rows.length;
  fill("moved", [table(["column", "share of the drift", "in the reference", "now"], rows)]);
}

function showChanges({ headings, rows, all }, before) {
  byId("no-changes").hidden = rows.length > 0;
  byId("changes").hidden = !rows.length;
  if (!rows.length) return;
  const made = table(headings, rows);
  const nNew = before ? Math.min(all - before.changes.all, rows.length) : 0;
  for (let k = 0; k < nNew; k++) made.tBodies[0].rows[k].className = "is-new";
  fill("changes", [made]);
  if (nNew > 0) setText("news", `A change in the inputs was detected in round ${rows[0][0]}.`);
}

// --- the chart ---

function showChart(figure) {
  byId("part-performance").hidden = !figure;
  figures = figure ? { performance: figure } : {};
  if (byId("numbers").parentNode.open) showNumbers();
  // Whoever reads a value with the pointer is not disturbed.
  if (!byId("chart-performance").matches(":hover")) drawAll(figures);
}

function showNumbers() {
  const figure = figures.performance;
  if (!figure) return;
  const place = figure.x.kind === "time" ? "date" : "round";
  const headings = [place, ...figure.series.map((one) => one.name)];
  const places = [...new Set(figure.series.flatMap((one) => one.x))].sort((a, b) => b - a);
  fill("numbers", [table(headings, places.map((at) => [placeText(figure.x, at).replace("around ", ""), ...figure.series.map((one) => {
    const k = one.x.indexOf(at);
    if (k < 0 || one.y[k] === null) return "–";
    const between = one.low ? `${numberText(one.low[k], figure.y.percent)} to ${numberText(one.high[k], figure.y.percent)}` : "";
    return numberText(one.y[k], figure.y.percent) + (between && ` (${between})`);
  })]))]);
}

byId("numbers").parentNode.addEventListener("toggle", (event) => { if (event.target.open) showNumbers(); });

let lastWidth = document.documentElement.clientWidth;
window.addEventListener("resize", () => {
  const width = document.documentElement.clientWidth;
  if (width !== lastWidth) drawAll(figures);
  lastWidth = width;
});

// --- the service ---

function setLink(tone, text) {
  byId("link").className = `link ${tone}`;
  setText("link-text", text);
}

async function fetchView() {
  if (isFetching) { isStale = true; return; }
  isFetching = true;
  try {
    const answer = await fetch("/page/view", { credentials: "same-origin", cache: "no-store" });
    if (answer.status === 401) { window.location.reload(); return; }
    if (answer.ok) show(await answer.json());
  } catch (error) {
    // The stream of events notices too, and comes back.
  } finally {
    isFetching = false;
  }
  if (isStale) { isStale = false; fetchView(); }
}

function follow() {
  const source = new EventSource("/v1/events");
  source.onopen = () => { setLink("good", "Live"); fetchView(); };
  source.onerror = () => {
    setLink("bad", "The service does not answer; trying again");
    speed = null; // it was true of a service that is gone
    if (view) showTiles();
    if (source.readyState !== EventSource.CLOSED) return;
    fetchView(); // if the service refuses the cookie, it asks for a token
    setTimeout(follow, 1000);
  };
  source.addEventListener("reading", fetchView);
  source.addEventListener("reset", fetchView);
}

follow();
// While nothing is learned, no reading comes.
setInterval(() => { if (speed && performance.now() - view.at > 5000) { speed = 0; showTiles(); } }, 5000);

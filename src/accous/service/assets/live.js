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
  showFacts(next);
  showVerdict(next.verdict);
  fill("answers", next.answers.flatMap(answerNodes));
  showTiles();
  showChanges(next.changes, before);
  byId("part-findings").hidden = !next.findings.length;
  fill("findings", next.findings.map((text) => element("li", "", text)));
  for (const name of ["error", "sample", "moved", "lengths"]) showChart(name, next.charts[name]);
  draw();
}

function showFacts({ rounds, rows, reference_rows }) {
  setText("facts", `${count(rounds, "round")}, ${count(rows, "row")}, compared with ` +
    `${count(reference_rows, "labelled reference row")}`);
}

function showVerdict(verdict) {
  byId("verdict").className = `verdict ${verdict.tone}`;
  setText("badge", verdict.badge);
  setText("headline", verdict.headline);
  document.title = `${verdict.badge}: ${view.name} – accous`;
  fill("sentences", verdict.sentences.map((text) => element("p", "", text)));
  fill("advice", verdict.advice.map((text) => element("li", "", text)));
}

function answerNodes({ question, answer, tone, sentence }) {
  const term = element("dt", "", `${question} `);
  term.appendChild(element("b", tone, answer));
  return [term, element("dd", "", sentence)];
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

function showChanges(changes, before) {
  byId("no-changes").hidden = changes.rows.length > 0;
  byId("changes").hidden = !changes.rows.length;
  if (!changes.rows.length) return;
  const made = table(changes.headings, changes.rows);
  const nNew = before ? Math.min(changes.all - before.changes.all, changes.rows.length) : 0;
  for (let k = 0; k < nNew; k++) made.tBodies[0].rows[k].className = "is-new";
  fill("changes", [made]);
  if (nNew > 0) setText("news", `A change in the inputs was detected in round ${changes.rows[0][0]}.`);
}

// --- charts ---

function showChart(name, chart) {
  const part = byId(`part-${name}`);
  part.hidden = !chart;
  if (!chart) { delete figures[name]; return; }
  part.querySelector("h2").textContent = chart.title;
  part.querySelector(".note").textContent = chart.note;
  figures[name] = chart.figure;
  const numbers = byId(`numbers-${name}`);
  if (numbers && numbers.parentNode.open) numbers.replaceChildren(numbersOf(chart.figure));
}

function numbersOf(figure) {
  const place = figure.x.kind === "time" ? "date" : "round";
  const headings = [place, ...figure.series.map((one) => one.name)];
  const main = figure.series.find((one) => one.kind === "line");
  const rows = main.x.map((at) => [placeText(figure.x, at).replace("around ", ""), ...figure.series.map((one) => {
    const k = one.x.indexOf(at);
    if (k < 0) return "–";
    const between = one.low ? `${numberText(one.low[k], figure.y.percent)} to ${numberText(one.high[k], figure.y.percent)}` : "";
    return one.y ? numberText(one.y[k], figure.y.percent) + (between && ` (${between})`) : between;
  })]);
  return table(headings, rows.reverse());
}

function draw() {
  for (const [name, figure] of Object.entries(figures)) {
    // Whoever reads a value with the pointer is not disturbed.
    if (!byId(`chart-${name}`).matches(":hover")) drawAll({ [name]: figure });
  }
}

for (const name of ["error", "sample"]) {
  byId(`numbers-${name}`).parentNode.addEventListener("toggle", (event) => {
    if (event.target.open && figures[name]) byId(`numbers-${name}`).replaceChildren(numbersOf(figures[name]));
  });
}

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

"use strict";
// Shows the keys a hundred at a time, so that ten thousand of them open at once.
(() => {
  const rows = JSON.parse(document.getElementById("figures").textContent);
  const body = document.getElementById("keys"), find = document.getElementById("find");
  const shown = document.getElementById("shown"), more = document.getElementById("more");
  const step = 100;
  let found = rows, n = step;
  const percent = (value) => (value === null ? "–" : (100 * value).toFixed(1) + " %");
  const cell = (text, tone) => {
    const td = document.createElement("td");
    td.textContent = text;
    if (tone) td.className = tone;
    return td;
  };
  const draw = () => {
    body.replaceChildren(
      ...found.slice(0, n).map((row) => {
        const tr = document.createElement("tr");
        const [key, state, tone, value, atFit, drift, effective, since, moving, columns, rounds, adapted, when] = row;
        tr.append(
          cell(key), cell(state, tone), cell(percent(value)), cell(percent(atFit)), cell(percent(drift)),
          cell(effective === null ? "–" : Math.round(effective).toLocaleString("en")),
          cell(since ? (when ? `${when}, ` : "") + `round ${since.toLocaleString("en")}` + (moving ? ", moving" : "") : "–"),
          cell(columns || "–"), cell(rounds.toLocaleString("en")), cell(adapted ? "adapted" : "fixed"),
        );
        return tr;
      }),
    );
    const total = found.length.toLocaleString("en");
    shown.textContent = `${Math.min(n, found.length).toLocaleString("en")} of ${total} keys`;
    more.hidden = n >= found.length;
  };
  find.addEventListener("input", () => {
    const word = find.value.trim().toLowerCase();
    found = word ? rows.filter((row) => `${row[0]} ${row[1]} ${row[9]}`.toLowerCase().includes(word)) : rows;
    n = step;
    draw();
  });
  more.addEventListener("click", () => {
    n += step;
    draw();
  });
  draw();
})();

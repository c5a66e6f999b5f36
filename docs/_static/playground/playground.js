// The page where the reader moves the drift: weights, ratio and decision line follow. No library and no server.
(() => {
  const { effectiveRows, estimateRatio, fitLogistic, makeRandom } = globalThis.playgroundNumbers;
  const N_REFERENCE = 300, N_TRUTH = 4000, RIDGE = 1, HIGHEST_RATIO = 100, SPAN = 4.2;
  const SVG = "http://www.w3.org/2000/svg";

  // Two groups of rows; in each another straight line separates the classes, so that no one line is right in both.
  const GROUPS = [
    { name: "left", centre: [-1.6, 0], isPositive: ([x, y]) => y > 0.9 * (x + 1.6) },
    { name: "right", centre: [1.6, 0], isPositive: ([x, y]) => y > -0.9 * (x - 1.6) },
  ];

  function drawRows(random, n, shareRight, offset) {
    const rows = [], labels = [];
    for (let i = 0; i < n; i++) {
      const group = GROUPS[random.uniform() < shareRight ? 1 : 0];
      const row = [group.centre[0] + 0.75 * random.normal(), group.centre[1] + 0.75 * random.normal() + offset];
      rows.push(row);
      labels.push(group.isPositive(row) !== random.uniform() < 0.05);
    }
    return { rows, labels };
  }

  const withOne = (row) => [1, ...row];
  const scoreOf = (coef, [x, y]) => coef[0] + coef[1] * x + coef[2] * y;

  function errorOf(coef, { rows, labels }) {
    return rows.filter((row, i) => scoreOf(coef, row) > 0 !== labels[i]).length / rows.length;
  }

  // Everything that the picture shows, computed from the reader's settings alone.
  function follow({ shareRight, offset, batchRows, shareReference }) {
    const reference = drawRows(makeRandom(1), N_REFERENCE, shareReference, 0);
    const batch = drawRows(makeRandom(2), batchRows, shareRight, offset);
    const truth = drawRows(makeRandom(3), N_TRUTH, shareRight, offset);
    const ratio = estimateRatio(reference.rows, batch.rows, RIDGE, HIGHEST_RATIO);
    const ratios = reference.rows.map(ratio);
    const mean = ratios.reduce((sum, value) => sum + value, 0) / ratios.length;
    const weights = ratios.map((value) => value / mean);
    const inputs = reference.rows.map(withOne);
    const fixed = fitLogistic(inputs, reference.labels, weights.map(() => 1), RIDGE);
    const adapted = fitLogistic(inputs, reference.labels, weights, RIDGE);
    const found = { reference, batch, ratio, weights, fixed, adapted, effective: effectiveRows(weights), mean };
    return { ...found, errorFixed: errorOf(fixed, truth), errorAdapted: errorOf(adapted, truth) };
  }

  // The words of the verdict: the same rules of thumb as in the package, for a picture in two dimensions.
  function verdictOf({ effective, mean, errorFixed, errorAdapted }) {
    if (effective < 10 || mean < 0.3) {
      return ["no overlap", "The batch lies where the reference has hardly any rows. No weighting can help."];
    }
    if (effective < 30) return ["thin", "Few rows carry the weight: a gain cannot be told from a loss."];
    const gain = errorFixed - errorAdapted;
    if (gain > 0.01) return ["it helps", "The fixed line is right on average; the adapted one is right for these rows."];
    if (gain < -0.01) return ["it hurts", "Fewer rows carry the weight, and the fixed line was right already."];
    return ["nothing to gain", "The rows look like the reference, or the fixed line is right for them."];
  }

  const toX = (x) => ((x + SPAN) / (2 * SPAN)) * 600;
  const toY = (y) => ((SPAN * 0.75 - y) / (1.5 * SPAN)) * 450;

  function add(parent, name, attributes) {
    const element = document.createElementNS(SVG, name);
    Object.entries(attributes).forEach(([key, value]) => element.setAttribute(key, value));
    parent.append(element);
    return element;
  }

  function drawLine(svg, coef, className) {
    const height = (x) => -(coef[0] + coef[1] * x) / coef[2];
    const ends = [-2 * SPAN, 2 * SPAN].map((x) => [toX(x), toY(height(x))]);
    add(svg, "line", { x1: ends[0][0], y1: ends[0][1], x2: ends[1][0], y2: ends[1][1], class: className });
  }

  // The ratio as a ground of squares: the more of a colour, the more common (or rare) such rows are now.
  function drawRatio(svg, ratio) {
    const step = 20;
    for (let px = 0; px < 600; px += step) {
      for (let py = 0; py < 450; py += step) {
        const x = ((px + step / 2) / 600) * 2 * SPAN - SPAN;
        const y = SPAN * 0.75 - ((py + step / 2) / 450) * 1.5 * SPAN;
        const level = Math.max(-1, Math.min(1, Math.log(ratio([x, y])) / Math.log(8)));
        const className = level > 0 ? "more" : "less";
        add(svg, "rect", { x: px, y: py, width: step, height: step, class: className, opacity: 0.45 * Math.abs(level) });
      }
    }
  }

  function drawRow(svg, [x, y], label, weight) {
    const size = Math.sqrt(weight) * 3.2, left = toX(x), top = toY(y);
    const className = `row ${label ? "positive" : "negative"}`;
    if (label) add(svg, "circle", { cx: left, cy: top, r: size, class: className });
    else add(svg, "rect", { x: left - size, y: top - size, width: 2 * size, height: 2 * size, class: className });
  }

  function draw(svg, found, shows) {
    svg.replaceChildren();
    if (shows.ratio) drawRatio(svg, found.ratio);
    found.reference.rows.forEach((row, i) => drawRow(svg, row, found.reference.labels[i], found.weights[i]));
    if (shows.batch) {
      found.batch.rows.forEach(([x, y]) => {
        add(svg, "path", { d: `M${toX(x) - 4} ${toY(y)}h8m-4 -4v8`, class: "batch" });
      });
    }
    drawLine(svg, found.fixed, "line fixed");
    drawLine(svg, found.adapted, "line adapted");
  }

  const percent = (share) => `${(100 * share).toFixed(1)} %`;

  function start(root) {
    const control = (name) => root.querySelector(`[name="${name}"]`);
    const show = (name, text) => {
      root.querySelector(`[data-shows="${name}"]`).textContent = text;
      control(name)?.setAttribute("aria-valuetext", text);
    };
    const update = () => {
      const settings = {
        shareRight: Number(control("share").value) / 100,
        offset: Number(control("offset").value) / 10,
        batchRows: Number(control("rows").value),
        shareReference: Number(control("reference").value) / 100,
      };
      const found = follow(settings);
      const [word, sentence] = verdictOf(found);
      draw(root.querySelector("svg"), found, { ratio: control("ratio").checked, batch: control("batch").checked });
      show("share", `${control("share").value} %`);
      show("offset", settings.offset.toFixed(1));
      show("rows", settings.batchRows);
      show("reference", `${control("reference").value} %`);
      show("fixed", percent(found.errorFixed));
      show("adapted", percent(found.errorAdapted));
      show("effective", `${found.effective.toFixed(0)} of ${N_REFERENCE}`);
      show("verdict", word);
      show("sentence", sentence);
      root.dataset.verdict = word;
    };
    root.addEventListener("input", update);
    root.querySelector("button").addEventListener("click", () => {
      root.querySelector("form").reset();
      update();
    });
    update();
    root.dataset.ready = "yes";
  }

  globalThis.playground = { follow, verdictOf };
  document.querySelectorAll(".playground").forEach(start);
})();

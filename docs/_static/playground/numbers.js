// The mathematics of the playground: seeded numbers, and weighted logistic regressions by Newton's method.
// A classic script, because browsers load no modules from files on disk.
(() => {
  // A small generator of random numbers with a seed (mulberry32): the same picture for every reader.
  function makeRandom(seed) {
    let state = seed >>> 0;
    const uniform = () => {
      state = (state + 0x6d2b79f5) >>> 0;
      let mixed = state;
      mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
      mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
      return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
    };
    const normal = () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
    return { uniform, normal };
  }

  const sigmoid = (score) => 1 / (1 + Math.exp(-score));

  const dot = (one, other) => one.reduce((sum, value, k) => sum + value * other[k], 0);

  // Solve A x = b for a small positive definite A, by elimination.
  function solve(A, b) {
    const rows = A.map((row, k) => [...row, b[k]]);
    const n = b.length;
    for (let k = 0; k < n; k++) {
      for (let below = k + 1; below < n; below++) {
        const factor = rows[below][k] / rows[k][k];
        for (let column = k; column <= n; column++) rows[below][column] -= factor * rows[k][column];
      }
    }
    const x = new Array(n).fill(0);
    for (let k = n - 1; k >= 0; k--) {
      const rest = rows[k].slice(k + 1, n).reduce((sum, value, j) => sum + value * x[k + 1 + j], 0);
      x[k] = (rows[k][n] - rest) / rows[k][k];
    }
    return x;
  }

  // Coefficients that minimise sum_i w_i log(1 + exp(-y_i z_i.c)) + ridge / 2 |c|^2 without the first, the intercept.
  function fitLogistic(rows, isPositive, weights, ridge) {
    const n = rows[0].length;
    let coef = new Array(n).fill(0);
    for (let step = 0; step < 25; step++) {
      const gradient = coef.map((value, k) => (k ? ridge * value : 0));
      const hessian = coef.map((_, k) => coef.map((__, j) => (k === j ? (k ? ridge : 1e-9) : 0)));
      rows.forEach((row, i) => {
        const share = sigmoid(dot(row, coef));
        const slope = weights[i] * (share - (isPositive[i] ? 1 : 0));
        const curve = weights[i] * share * (1 - share);
        for (let k = 0; k < n; k++) {
          gradient[k] += slope * row[k];
          for (let j = 0; j < n; j++) hessian[k][j] += curve * row[k] * row[j];
        }
      });
      const move = solve(hessian, gradient);
      coef = coef.map((value, k) => value - move[k]);
      if (Math.max(...move.map(Math.abs)) < 1e-9) break;
    }
    return coef;
  }

  // Ratio of batch density over reference density, by the classifier that tells the two apart, in squares and products.
  function estimateRatio(reference, batch, ridge, highest) {
    const features = ([x, y]) => [1, x, y, x * x, x * y, y * y];
    const rows = [...reference, ...batch].map(features);
    const isBatch = rows.map((_, i) => i >= reference.length);
    const weights = rows.map((_, i) => (i < reference.length ? 1 / reference.length : 1 / batch.length) * 200);
    const coef = fitLogistic(rows, isBatch, weights, ridge);
    return (row) => Math.min(Math.exp(dot(features(row), coef)), highest);
  }

  function effectiveRows(weights) {
    const sum = weights.reduce((total, weight) => total + weight, 0);
    return (sum * sum) / weights.reduce((total, weight) => total + weight * weight, 0);
  }

  globalThis.playgroundNumbers = { makeRandom, fitLogistic, estimateRatio, effectiveRows };
})();

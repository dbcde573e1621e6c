// Axes: how values become positions, as in matplotlib, and the ticks of an axis that is drawn again.

const LINEAR = { to: (value) => value, from: (place) => place };
const LOG = { to: (value) => Math.log10(Math.max(value, 0)), from: (place) => 10 ** place };

function symlog(linear) {
  const edge = 1 / 0.9;
  return {
    to: (value) => {
      const size = Math.abs(value) / linear;
      return Math.sign(value) * (size <= 1 ? size * edge : edge + Math.log10(size));
    },
    from: (place) => {
      const size = Math.abs(place);
      return Math.sign(place) * linear * (size <= edge ? size / edge : 10 ** (size - edge));
    },
  };
}

function axis([kind, start, end, low, high, linear]) {
  const scale = { log: LOG, symlog: symlog(linear) }[kind] ?? LINEAR;
  const first = scale.to(low);
  const slope = (end - start) / (scale.to(high) - first);
  const at = (value) => start + (scale.to(value) - first) * slope;
  const value = (position) => scale.from(first + (position - start) / slope);
  const inside = (position) => position >= Math.min(start, end) - 0.1 && position <= Math.max(start, end) + 0.1;
  return { kind, start, end, low, high, linear, scale, at, value, inside };
}

// The same axis with other limits, and another kind if one is given.
function limited(old, [low, high], kind = old.kind) {
  return axis([kind, old.start, old.end, low, high, old.linear]);
}

// Limits with some room around values, on a scale that may not have all of them.
function fit(values, { to, from }) {
  const places = values.map(to).filter(Number.isFinite);
  const low = places.reduce((a, b) => Math.min(a, b), Infinity);
  const high = places.reduce((a, b) => Math.max(a, b), -Infinity);
  const room = (high - low) * 0.05 || Math.abs(high) * 0.05 || 1;
  return [from(low - room), from(high + room)];
}

function linearTicks(low, high, most) {
  const rough = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
  const first = Math.ceil(low / step);
  return Array.from({ length: Math.floor(high / step) - first + 1 }, (_, i) => (first + i) * step);
}

function decades(low, high, parts) {
  const [first, last] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
  const powers = Array.from({ length: last - first + 1 }, (_, i) => 10 ** (first + i));
  return powers.flatMap((power) => parts.map((part) => part * power)).filter((tick) => tick >= low && tick <= high);
}

function ticks({ kind, low, high, linear }, most) {
  const [least, greatest] = [Math.min(low, high), Math.max(low, high)];
  if (kind === "symlog") {
    const powers = [linear, ...decades(linear * 1.1, Math.max(-least, greatest, linear * 1.2), [1])];
    const both = [...powers.map((tick) => -tick), 0, ...powers];
    const found = both.filter((tick) => tick >= least && tick <= greatest);
    if (found.length > 1) return found.length > most ? found.filter((tick) => tick === 0 || Math.abs(tick) > linear) : found;
  }
  if (kind === "log") {
    const found = decades(least, greatest, greatest < 100 * least ? [1, 2, 5] : [1]);
    const each = Math.ceil(found.length / most);
    if (found.length > 2) return found.filter((_, i) => i % each === 0);
  }
  return linearTicks(least, greatest, most);
}

// Ticks as text, with as many digits as tell them apart.
function written(values, kind) {
  const size = Math.max(...values.map(Math.abs));
  const gap = Math.min(...values.slice(1).map((value, i) => Math.abs(value - values[i])), size || 1);
  const digits = Math.max(0, Math.min(12, Math.ceil(-Math.log10(gap) - 1e-9)));
  const long = size >= 1e5 || size < 1e-3;
  return values.map((value) => {
    const power = Math.floor(Math.log10(Math.abs(value) || 1));
    const exact = String(Number(value.toPrecision(Math.max(1, Math.min(12, power + 1 - Math.floor(Math.log10(gap)))))));
    return (kind === "linear" && !long ? value.toFixed(digits) : exact).replaceAll("-", "−");
  });
}

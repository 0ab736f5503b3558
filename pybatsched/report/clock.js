// Time for people: days, hours, minutes and seconds, and where an axis has its ticks.
"use strict";
const pybatschedClock = (() => {
  const UNITS = [[86400, "d"], [3600, "h"], [60, "min"]];
  const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800];
  function text(seconds) { // to a hundredth of a second, and nothing that is 0: 3 d 4 h 0.25 s
    const sign = seconds < 0 ? "-" : "", words = [];
    let rest = Math.round(Math.abs(seconds) * 100);
    for (const [unit, name] of UNITS) {
      const n = Math.floor(rest / (unit * 100));
      if (n) words.push(n.toLocaleString("en") + " " + name);
      rest -= n * unit * 100;
    }
    if (rest || !words.length) words.push(rest / 100 + " s");
    return sign + words.join(" ");
  }
  function step(span, wanted) { // the length of time between ticks, for about so many of them
    const raw = span / wanted;
    const unit = raw > 172800 ? 86400 : 1, power = unit * Math.pow(10, Math.floor(Math.log10(raw / unit)));
    if (raw <= 172800 && raw >= 1) return STEPS.find((one) => one >= raw);
    return [1, 2, 5, 10].map((k) => k * power).find((one) => one >= raw * (1 - 1e-9));
  }
  function ticks(from, to, wanted) {
    const every = step(to - from, wanted), found = [];
    for (let k = Math.ceil(from / every); k * every <= to; k++) found.push([k * every, label(k * every, every)]);
    return found;
  }
  function label(at, every) { return every >= 0.01 || !at ? (at ? text(at) : "0") : Number(at.toFixed(6)) + " s"; }
  return { text, ticks, label };
})();

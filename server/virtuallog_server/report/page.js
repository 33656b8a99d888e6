"use strict";
// A crosshair through all rows of each timeline: the time under the pointer, and what was measured then.
for (const timeline of document.querySelectorAll(".timeline:not(.still)")) {
  const data = JSON.parse(timeline.querySelector('script[type="application/json"]').textContent);
  const plot = timeline.querySelector(".axis .plot");
  const line = timeline.appendChild(document.createElement("div"));
  const reading = timeline.appendChild(document.createElement("div"));
  line.className = "crosshair";
  reading.className = "reading";
  let at = null;

  // The last point that is not behind `time` in what holds on; elsewhere the nearest one.
  const valueAt = (series, time) => {
    let low = 0, high = series.points.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (series.points[middle][0] <= time) low = middle + 1; else high = middle;
    }
    const before = series.points[low - 1], after = series.points[low];
    if (series.held) return before ? before[1] : null;
    if (!before || !after) return (before || after || [0, null])[1];
    return (time - before[0] <= after[0] - time ? before : after)[1];
  };

  const addRow = (name, value) => {
    const row = reading.appendChild(document.createElement("div"));
    row.appendChild(document.createElement("span")).textContent = name;
    row.appendChild(document.createElement("b")).textContent = value;
  };

  const show = (time) => {
    at = time;
    line.hidden = reading.hidden = time === null;
    if (time === null) return;
    const outer = timeline.getBoundingClientRect(), inner = plot.getBoundingClientRect();
    const left = inner.left - outer.left + inner.width * time / data.seconds;
    line.style.left = left + "px";
    reading.replaceChildren();
    const span = data.spans.find(([start, stop]) => start <= time && time < stop);
    addRow(time.toFixed(1) + " s", span ? span[2] : "");
    for (const series of data.series) addRow(series.label, valueAt(series, time) ?? "none ended");
    const beyond = left + 14 + reading.offsetWidth > outer.width;
    reading.style.left = (beyond ? Math.max(0, left - 14 - reading.offsetWidth) : left + 14) + "px";
  };

  const timeUnder = (event) => {
    const box = plot.getBoundingClientRect();
    const share = (event.clientX - box.left) / box.width;
    return share < 0 || share > 1 ? null : share * data.seconds;
  };

  timeline.addEventListener("pointermove", (event) => {
    show(event.target.closest(".chart") ? timeUnder(event) : null);
  });
  timeline.addEventListener("pointerdown", (event) => {
    show(event.target.closest(".chart") ? timeUnder(event) : null);
  });
  timeline.addEventListener("pointerleave", () => show(null));
  timeline.addEventListener("blur", () => show(null));
  timeline.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!steps || event.target !== timeline) return;
    event.preventDefault();
    show(Math.min(Math.max((at ?? 0) + steps * data.seconds / 200, 0), data.seconds));
  });
  show(null);
}

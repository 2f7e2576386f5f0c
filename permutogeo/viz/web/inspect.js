"use strict";
// Value under the cursor, error histogram, and saving of pictures.

/** Show the errors of the vertex under the pointer, for all meshes that share its index. */
function listenToHover(views, camera, strength) {
  const output = document.getElementById("value");
  let waiting = false;
  const show = (view, event) => {
    waiting = false;
    const { scene } = view;
    const vertex = view.pick(camera, placeOn(view.canvas, event.clientX, event.clientY), strength.value);
    const same = views.filter((other) => other.mesh.errors && other.mesh.face === view.mesh.face
      && other.mesh.position.length === view.mesh.position.length);
    const shown = view.mesh.face ? same : [view].filter((each) => each.mesh.errors);
    output.value = vertex < 0 || !shown.length ? "\u00a0" : `${scene.quantity} of vertex ${vertex}: `
      + shown.map(({ mesh }) => `${mesh.name} ${mesh.errors[vertex].toFixed(3)}`).join(", ")
      + ` ${scene.unit}`;
  };
  for (const view of views) {
    view.canvas.addEventListener("pointermove", (event) => {
      if (event.buttons || waiting) return;
      waiting = true;
      requestAnimationFrame(() => show(view, event));
    });
    view.canvas.addEventListener("pointerleave", () => { output.value = "\u00a0"; });
  }
}

/** Cursor of the histogram: the part of the vertices with an error above it. */
function listenToHistogram(scene) {
  const input = document.getElementById("threshold");
  if (!input) return;
  const line = document.querySelector(".histogram line");
  const update = () => {
    const bin = Number(input.value), bins = scene.histograms[0].counts.length;
    for (const end of ["x1", "x2"]) line.setAttribute(end, 100 * bin / bins);
    const parts = scene.histograms.map(({ name, counts }) => {
      const all = counts.reduce((sum, count) => sum + count, 0);
      const above = counts.slice(bin).reduce((sum, count) => sum + count, 0);
      return `${name} ${(100 * above / all).toFixed(1)} %`;
    });
    const limit = (scene.scaleEnd * bin / bins).toPrecision(3);
    document.getElementById("above").value = `At least ${limit} ${scene.unit}: ${parts.join(", ")}`;
  };
  input.addEventListener("input", update);
  update();
}

/** Download what the views show as one PNG, with their names. */
function savePicture(views, camera, look, comparison) {
  const shown = comparison.active ? comparison.pair.map((i) => views[i]) : views;
  const overlap = comparison.active;
  const [width, height] = [shown[0].canvas.width, shown[0].canvas.height];
  const text = Math.max(12, Math.round(height / 24)), top = 2 * text;
  const sheet = document.createElement("canvas");
  sheet.width = overlap ? width : width * shown.length;
  sheet.height = height + top;
  const pen = sheet.getContext("2d");
  pen.fillStyle = "#ffffff";
  pen.fillRect(0, 0, sheet.width, sheet.height);
  pen.font = `${text}px sans-serif`;
  shown.forEach((view, i) => {
    // The buffer is only defined right after drawing.
    view.draw(camera, look);
    const split = Math.round(comparison.part * width);
    const from = overlap && i === 1 ? split : 0;
    const size = overlap ? (i === 0 ? split : width - split) : width;
    const left = overlap ? from : i * width;
    if (size > 0) pen.drawImage(view.canvas, from, 0, size, height, left, top, size, height);
    pen.fillStyle = "#1f2226";
    pen.textAlign = overlap && i === 1 ? "right" : "left";
    pen.fillText(view.mesh.name, overlap && i === 1 ? width - text : left + text, 1.4 * text);
  });
  sheet.toBlob((blob) => {
    const link = document.createElement("a");
    link.download = "picture.png";
    link.href = URL.createObjectURL(blob);
    document.documentElement.dataset.saved = blob.size;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
}

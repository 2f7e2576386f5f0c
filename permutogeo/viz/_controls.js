"use strict";
// What a reader does with mouse, pen, fingers and keys; starts the page.

const MOVES = {
  ArrowLeft: (camera) => camera.turn(-0.1, 0),
  ArrowRight: (camera) => camera.turn(0.1, 0),
  ArrowUp: (camera) => camera.turn(0, -0.1),
  ArrowDown: (camera) => camera.turn(0, 0.1),
  "+": (camera) => camera.zoomAt([0, 0], 1.15),
  "-": (camera) => camera.zoomAt([0, 0], 1 / 1.15),
};

const withModifier = (event) => event.ctrlKey || event.metaKey || event.altKey;

/** Where a pointer is on a canvas, from -1 to 1. */
function placeOn(canvas, x, y) {
  const box = canvas.getBoundingClientRect();
  return [2 * (x - box.left) / box.width - 1, 1 - 2 * (y - box.top) / box.height];
}

function shift(camera, canvas, dx, dy) {
  const [x, y] = camera.pan;
  camera.pan = [x + 2 * dx / canvas.clientWidth, y - 2 * dy / canvas.clientHeight];
}

/** Two fingers zoom about the one that rests, and move what lies between them. */
function pinch(camera, canvas, last, now, other) {
  const gap = (from) => Math.max(Math.hypot(from[0] - other[0], from[1] - other[1]), 1);
  camera.zoomAt(placeOn(canvas, ...other), gap(now) / gap(last));
  shift(camera, canvas, (now[0] - last[0]) / 2, (now[1] - last[1]) / 2);
}

/** Pointers that are down turn, move or zoom. */
function listenToPointers(canvas, camera, redraw) {
  const pointers = new Map();
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, [event.clientX, event.clientY]);
  });
  canvas.addEventListener("pointermove", (event) => {
    const last = pointers.get(event.pointerId);
    if (!last) return;
    const now = [event.clientX, event.clientY];
    const [dx, dy] = [now[0] - last[0], now[1] - last[1]];
    const [, other] = [...pointers].find(([id]) => id !== event.pointerId) || [];
    if (other) pinch(camera, canvas, last, now, other);
    else if (event.shiftKey || event.buttons & 6) shift(camera, canvas, dx, dy);
    else camera.turn(5 * dx / canvas.clientHeight, 5 * dy / canvas.clientHeight);
    pointers.set(event.pointerId, now);
    redraw();
  });
  for (const kind of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(kind, (event) => pointers.delete(event.pointerId));
  }
}

function listenToWheelAndKeys(canvas, camera, redraw) {
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const lines = event.deltaMode ? event.deltaY : event.deltaY / 30;
    const factor = Math.exp(-0.04 * Math.max(-10, Math.min(10, lines)));
    camera.zoomAt(placeOn(canvas, event.clientX, event.clientY), factor);
    redraw();
  }, { passive: false });
  canvas.addEventListener("contextmenu", (event) => event.preventDefault());
  canvas.addEventListener("keydown", (event) => {
    const move = MOVES[event.key];
    if (!move || withModifier(event)) return;
    move(camera);
    event.preventDefault();
    redraw();
  });
}

/** Shape, error or color: the switch of the page, its key and the end of the address. */
class Modes {
  constructor() {
    this.inputs = [...document.querySelectorAll("input[name=mode]")];
    this.choose(location.hash.slice(1));
  }

  get chosen() {
    return (this.inputs.find((input) => input.checked) || {}).value;
  }

  choose(name) {
    if (!this.inputs.some((input) => input.value === name)) return;
    for (const input of this.inputs) input.checked = input.value === name;
  }

  toggleError() {
    this.choose(this.chosen === "error" ? "shape" : "error");
  }
}

/** A function that draws all views at the next frame, however often it is called before. */
function painter(views, camera, modes) {
  let waiting = false;
  const paint = () => {
    waiting = false;
    for (const view of views) view.draw(camera, modes.chosen);
    document.documentElement.dataset.meshes = views.length;
  };
  return () => {
    if (!waiting) requestAnimationFrame(paint);
    waiting = true;
  };
}

/** A view for each mesh of the page. */
async function makeViews() {
  const scene = JSON.parse(document.getElementById("scene").textContent);
  const arrays = await unpack(scene.arrays, document.getElementById("geometry").textContent);
  const canvases = document.querySelectorAll("canvas");
  return scene.meshes.map(({ position, face, normal, error, color, diameter }, i) => {
    const colors = {};
    if (error) colors.error = errorColors(arrays[error], arrays.ramp);
    if (color) colors.color = arrays[color];
    const mesh = { position: arrays[position], face: arrays[face], normal: arrays[normal] };
    return new View(canvases[i], { ...mesh, colors, diameter }, scene);
  });
}

async function start() {
  const views = await makeViews();
  const camera = new Camera(views[0].scene.rotation);
  const modes = new Modes();
  const redraw = painter(views, camera, modes);
  const reset = () => { camera.reset(); redraw(); };
  for (const { canvas } of views) {
    listenToPointers(canvas, camera, redraw);
    listenToWheelAndKeys(canvas, camera, redraw);
    canvas.addEventListener("dblclick", reset);
    canvas.addEventListener("webglcontextrestored", redraw);
    new ResizeObserver(redraw).observe(canvas);
  }
  for (const input of modes.inputs) input.addEventListener("change", redraw);
  document.getElementById("reset").addEventListener("click", reset);
  document.addEventListener("keydown", (event) => {
    if (withModifier(event)) return;
    const key = event.key.toLowerCase();
    if (key === "r") reset();
    if (key === "e") { modes.toggleError(); redraw(); }
  });
  redraw();
}

start().catch((error) => {
  const note = document.getElementById("failure");
  note.hidden = false;
  note.textContent = `The meshes cannot be shown here: ${error.message}.`;
});

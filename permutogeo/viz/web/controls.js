"use strict";
// Mouse, touch and keyboard input of the views; starts the page.

const MOVES = {
  ArrowLeft: (camera) => camera.turn(-0.1, 0),
  ArrowRight: (camera) => camera.turn(0.1, 0),
  ArrowUp: (camera) => camera.turn(0, -0.1),
  ArrowDown: (camera) => camera.turn(0, 0.1),
  "+": (camera) => camera.zoomAt([0, 0], 1.15),
  "-": (camera) => camera.zoomAt([0, 0], 1 / 1.15),
};

const withModifier = (event) => event.ctrlKey || event.metaKey || event.altKey;

/** Return the position of a pointer on a canvas, from -1 to 1. */
function placeOn(canvas, x, y) {
  const box = canvas.getBoundingClientRect();
  return [2 * (x - box.left) / box.width - 1, 1 - 2 * (y - box.top) / box.height];
}

function shift(camera, canvas, dx, dy) {
  const [x, y] = camera.pan;
  camera.pan = [x + 2 * dx / canvas.clientWidth, y - 2 * dy / canvas.clientHeight];
}

/** Two-finger gesture: zoom about the resting finger, and pan. */
function pinch(camera, canvas, last, now, other) {
  const gap = (from) => Math.max(Math.hypot(from[0] - other[0], from[1] - other[1]), 1);
  camera.zoomAt(placeOn(canvas, ...other), gap(now) / gap(last));
  shift(camera, canvas, (now[0] - last[0]) / 2, (now[1] - last[1]) / 2);
}

/** Rotate, pan or zoom with pressed pointers. */
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

/** Display mode (shape, error, color), set by switch, key or URL fragment. */
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

/** Return a function that redraws views once at the next animation frame. */
function painter(views, camera, look) {
  const waiting = new Set();
  const paint = () => {
    for (const view of waiting) if (view.canvas.clientWidth) view.draw(camera, look());
    waiting.clear();
    document.documentElement.dataset.meshes = views.length;
  };
  return (some) => {
    if (waiting.size === 0) requestAnimationFrame(paint);
    for (const view of some) waiting.add(view);
  };
}

/** Make one view for each mesh of the page. */
async function makeViews() {
  const scene = JSON.parse(document.getElementById("scene").textContent);
  const arrays = await unpack(scene.arrays, document.getElementById("geometry").textContent);
  const canvases = document.querySelectorAll("canvas");
  return scene.meshes.map((names, i) => {
    const mesh = { colors: {}, diameter: names.diameter, name: names.name };
    for (const kind of ["position", "face", "normal", "origin"]) mesh[kind] = arrays[names[kind]];
    if (names.error) {
      mesh.errors = Float32Array.from(arrays[names.error], (level) => level * scene.errorStep);
      mesh.colors.error = errorColors(mesh.errors, scene.scaleEnd, arrays.ramp);
    }
    if (names.color) mesh.colors.color = arrays[names.color];
    return new View(canvases[i], mesh, i, { ...scene, arrays });
  });
}

async function start() {
  const views = await makeViews();
  const camera = new Camera(views[0].scene.rotation);
  const modes = new Modes();
  const wireframe = document.getElementById("wireframe");
  const strength = new Strength(views);
  const look = () => ({
    mode: modes.chosen,
    wireframe: wireframe && wireframe.checked ? 1 : 0,
    strength: strength.value,
  });
  const paint = painter(views, camera, look);
  const redraw = () => paint(views);
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
  wireframe?.addEventListener("change", redraw);
  strength.listen(() => paint(strength.views));
  const comparison = new Comparison(views, redraw);
  listenToHover(views, camera, strength);
  listenToHistogram(views[0].scene);
  const save = () => savePicture(views, camera, look(), comparison);
  document.getElementById("save").addEventListener("click", save);
  const actions = {
    r: reset,
    e: () => { modes.toggleError(); redraw(); },
    w: () => wireframe?.click(),
    c: () => comparison.toggle(),
    s: save,
  };
  document.addEventListener("keydown", (event) => {
    if (withModifier(event) || event.target.matches("select")) return;
    actions[event.key.toLowerCase()]?.();
  });
  redraw();
}

start().catch((error) => {
  const note = document.getElementById("failure");
  note.hidden = false;
  note.textContent = `The meshes cannot be shown here: ${error.message}.`;
});

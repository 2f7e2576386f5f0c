"use strict";
// Draws the meshes of a report, each in its own canvas, with one camera for all of them.
// The page holds what is drawn: a description (JSON) and the arrays it names (gzip, base64).
// The shaders stand in _shaders.js, which comes first.

const ARRAY_TYPES = { Uint8Array, Int8Array, Uint16Array, Uint32Array };

/** The arrays of the page, by name. */
async function unpack(description, base64) {
  const packed = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const buffer = await new Response(stream).arrayBuffer();
  const arrays = {};
  for (const [name, { type, offset, length }] of Object.entries(description)) {
    arrays[name] = new ARRAY_TYPES[type](buffer, offset, length);
  }
  return arrays;
}

/** One color for each error, from the scale of the page. */
function errorColors(levels, ramp) {
  const colors = new Uint8Array(3 * levels.length);
  levels.forEach((level, i) => colors.set(ramp.subarray(3 * level, 3 * level + 3), 3 * i));
  return colors;
}

function makeProgram(gl) {
  const program = gl.createProgram();
  const sources = { VERTEX_SHADER, FRAGMENT_SHADER };
  for (const [kind, source] of Object.entries(sources)) {
    const shader = gl.createShader(gl[kind]);
    gl.shaderSource(shader, source);
    gl.compileShader(shader);
    gl.attachShader(program, shader);
  }
  gl.linkProgram(program);
  if (!gl.getProgramParameter(program, gl.LINK_STATUS) && !gl.isContextLost()) {
    throw new Error(gl.getProgramInfoLog(program) || "the shaders did not compile");
  }
  return program;
}

/** A mesh on a canvas; draws itself as the camera sees it. */
class View {
  constructor(canvas, mesh, scene) {
    Object.assign(this, { canvas, mesh, scene });
    canvas.addEventListener("webglcontextlost", (event) => event.preventDefault());
    canvas.addEventListener("webglcontextrestored", () => this.upload());
    this.gl = canvas.getContext("webgl2", { antialias: true, alpha: true });
    if (!this.gl) throw new Error("this browser offers no WebGL 2");
    this.upload();
  }

  upload() {
    const { gl, mesh, scene } = this;
    const fill = (target, array) => {
      const buffer = gl.createBuffer();
      gl.bindBuffer(target, buffer);
      gl.bufferData(target, array, gl.STATIC_DRAW);
      return buffer;
    };
    const attribute = (location, array, type) => {
      fill(gl.ARRAY_BUFFER, array);
      gl.enableVertexAttribArray(location);
      gl.vertexAttribPointer(location, 3, type, true, 0, 0);
    };
    const program = makeProgram(gl);
    gl.useProgram(program);
    for (const name of ["DEPTH_TEST", "CULL_FACE", "POLYGON_OFFSET_FILL"]) gl.enable(gl[name]);
    attribute(0, mesh.position, gl.UNSIGNED_SHORT);
    if (mesh.normal) attribute(1, mesh.normal, gl.BYTE);
    if (mesh.face) fill(gl.ELEMENT_ARRAY_BUFFER, mesh.face);
    this.colors = {};
    for (const [mode, array] of Object.entries(mesh.colors)) {
      this.colors[mode] = fill(gl.ARRAY_BUFFER, array);
    }
    this.uniform = (name) => gl.getUniformLocation(program, name);
    gl.uniform1i(this.uniform("isCloud"), mesh.face ? 0 : 1);
    gl.uniform1f(this.uniform("distance"), scene.distance);
    for (const name of ["ambient", "back"]) gl.uniform1f(this.uniform(name), scene.light[name]);
    for (const name of ["key", "fill"]) gl.uniform4fv(this.uniform(name), scene.light[name]);
  }

  /** Scale and shift from the image plane to the canvas; at zoom 1 the scene fits in. */
  frame(camera) {
    const { center, half, margin } = this.scene;
    const aspect = this.canvas.clientWidth / this.canvas.clientHeight;
    const scale = camera.zoom * margin * Math.min(aspect / half[0], 1 / half[1]);
    const x = scale / aspect, y = scale;
    return [x, y, camera.pan[0] - center[0] * x, camera.pan[1] - center[1] * y];
  }

  draw(camera, mode) {
    const { gl, canvas, mesh } = this;
    const density = Math.min(window.devicePixelRatio || 1, 3);
    const width = Math.max(1, Math.round(canvas.clientWidth * density));
    const height = Math.max(1, Math.round(canvas.clientHeight * density));
    if (canvas.width !== width) canvas.width = width;
    if (canvas.height !== height) canvas.height = height;
    gl.viewport(0, 0, width, height);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    if (this.colors[mode]) {
      gl.bindBuffer(gl.ARRAY_BUFFER, this.colors[mode]);
      gl.enableVertexAttribArray(2);
      gl.vertexAttribPointer(2, 3, gl.UNSIGNED_BYTE, true, 0, 0);
    } else {
      gl.disableVertexAttribArray(2);
      gl.vertexAttrib3fv(2, this.scene.clay);
    }
    const frame = this.frame(camera);
    gl.uniform1f(this.uniform("softness"), this.colors[mode] ? this.scene.light.softness : 0);
    gl.uniform1f(this.uniform("pointSize"), mesh.diameter * frame[1] * height / 2);
    gl.uniform4fv(this.uniform("frame"), frame);
    gl.uniformMatrix3fv(this.uniform("rotation"), true, camera.rotation);
    if (mesh.face) {
      const type = mesh.face instanceof Uint32Array ? gl.UNSIGNED_INT : gl.UNSIGNED_SHORT;
      // Insides lie a little behind, or they would show through along the outline.
      for (const [hidden, offset] of [[gl.FRONT, 2], [gl.BACK, 0]]) {
        gl.cullFace(hidden);
        gl.polygonOffset(offset, offset);
        gl.drawElements(gl.TRIANGLES, mesh.face.length, type, 0);
      }
    } else {
      gl.drawArrays(gl.POINTS, 0, mesh.position.length / 3);
    }
    canvas.dataset.drawn = mesh.face ? mesh.face.length / 3 : mesh.position.length / 3;
  }
}

/** What all views share: where they are seen from. */
class Camera {
  constructor(home) {
    this.home = home;
    this.reset();
  }

  reset() {
    Object.assign(this, { rotation: this.home, zoom: 1, pan: [0, 0] });
  }

  /** Turn about the vertical and the horizontal axis of the screen, in radians. */
  turn(right, down) {
    const [c, s, d, t] = [Math.cos(right), Math.sin(right), Math.cos(down), Math.sin(down)];
    const step = [c, 0, s, t * s, d, -t * c, -d * s, t, d * c];
    const old = this.rotation;
    this.rotation = old.map((_, i) => {
      const row = i - i % 3, column = i % 3;
      return [0, 1, 2].reduce((sum, k) => sum + step[row + k] * old[3 * k + column], 0);
    });
  }

  /** Zoom so that what lies at a place of the canvas, from -1 to 1, stays there. */
  zoomAt(place, factor) {
    const zoom = Math.min(Math.max(this.zoom * factor, 0.2), 40);
    this.pan = this.pan.map((pan, i) => place[i] + (pan - place[i]) * zoom / this.zoom);
    this.zoom = zoom;
  }
}

const MOVES = {
  ArrowLeft: (camera) => camera.turn(-0.1, 0),
  ArrowRight: (camera) => camera.turn(0.1, 0),
  ArrowUp: (camera) => camera.turn(0, -0.1),
  ArrowDown: (camera) => camera.turn(0, 0.1),
  "+": (camera) => camera.zoomAt([0, 0], 1.15),
  "-": (camera) => camera.zoomAt([0, 0], 1 / 1.15),
};

/** Mouse, pen, fingers and keys of one canvas move the camera. */
function listen(canvas, camera, redraw) {
  const pointers = new Map();
  const placeOf = (x, y) => {
    const box = canvas.getBoundingClientRect();
    return [2 * (x - box.left) / box.width - 1, 1 - 2 * (y - box.top) / box.height];
  };
  const shift = (dx, dy) => {
    const [x, y] = camera.pan;
    camera.pan = [x + 2 * dx / canvas.clientWidth, y - 2 * dy / canvas.clientHeight];
  };
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, [event.clientX, event.clientY]);
  });
  canvas.addEventListener("pointermove", (event) => {
    const last = pointers.get(event.pointerId);
    if (!last) return;
    const now = [event.clientX, event.clientY];
    const [dx, dy] = [now[0] - last[0], now[1] - last[1]];
    if (pointers.size === 1) {
      if (event.shiftKey || event.buttons & 6) shift(dx, dy);
      else camera.turn(5 * dx / canvas.clientHeight, 5 * dy / canvas.clientHeight);
    } else {
      const [, other] = [...pointers].find(([id]) => id !== event.pointerId);
      const gap = (from) => Math.max(Math.hypot(from[0] - other[0], from[1] - other[1]), 1);
      camera.zoomAt(placeOf(...other), gap(now) / gap(last));
      shift(dx / 2, dy / 2);
    }
    pointers.set(event.pointerId, now);
    redraw();
  });
  for (const kind of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(kind, (event) => pointers.delete(event.pointerId));
  }
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const lines = event.deltaMode ? event.deltaY : event.deltaY / 30;
    const factor = Math.exp(-0.04 * Math.max(-10, Math.min(10, lines)));
    camera.zoomAt(placeOf(event.clientX, event.clientY), factor);
    redraw();
  }, { passive: false });
  canvas.addEventListener("contextmenu", (event) => event.preventDefault());
  canvas.addEventListener("keydown", (event) => {
    const move = MOVES[event.key];
    if (!move || event.ctrlKey || event.metaKey || event.altKey) return;
    move(camera);
    event.preventDefault();
    redraw();
  });
}

async function start() {
  const scene = JSON.parse(document.getElementById("scene").textContent);
  const arrays = await unpack(scene.arrays, document.getElementById("geometry").textContent);
  const canvases = [...document.querySelectorAll("canvas")];
  const views = scene.meshes.map(({ position, face, normal, error, color, diameter }, i) => {
    const colors = {};
    if (error) colors.error = errorColors(arrays[error], arrays.ramp);
    if (color) colors.color = arrays[color];
    const mesh = { position: arrays[position], face: arrays[face], normal: arrays[normal] };
    return new View(canvases[i], { ...mesh, colors, diameter }, scene);
  });

  const camera = new Camera(scene.rotation);
  const modes = [...document.querySelectorAll("input[name=mode]")];
  const choose = (name) => modes.forEach((input) => { input.checked = input.value === name; });
  if (modes.some((input) => `#${input.value}` === location.hash)) choose(location.hash.slice(1));
  let waiting = false;
  const redraw = () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      const mode = (modes.find((input) => input.checked) || {}).value;
      for (const view of views) view.draw(camera, mode);
      document.documentElement.dataset.meshes = views.length;
    });
  };
  const reset = () => { camera.reset(); redraw(); };
  for (const canvas of canvases) {
    listen(canvas, camera, redraw);
    canvas.addEventListener("dblclick", reset);
    canvas.addEventListener("webglcontextrestored", redraw);
    new ResizeObserver(redraw).observe(canvas);
  }
  for (const input of modes) input.addEventListener("change", redraw);
  document.getElementById("reset").addEventListener("click", reset);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const key = event.key.toLowerCase();
    if (key === "r") reset();
    if (key !== "e" || !modes.some((input) => input.value === "error")) return;
    choose(modes.find((input) => input.checked).value === "error" ? "shape" : "error");
    redraw();
  });
  redraw();
}

start().catch((error) => {
  const note = document.getElementById("failure");
  note.hidden = false;
  note.textContent = `The meshes cannot be shown here: ${error.message}.`;
});

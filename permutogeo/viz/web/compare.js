"use strict";
// Split view of two meshes with a draggable divider, and the strength slider.

/** Slider from the first mesh (0) to the results (1): a linear blend of the vertices. */
class Strength {
  constructor(views) {
    this.input = document.getElementById("strength");
    this.views = views.filter((view) => view.mesh.origin);
    this.final = this.views.map((view) => view.mesh.errors);
  }

  get value() {
    return this.input ? this.input.value / 100 : 1;
  }

  listen(redraw) {
    this.input?.addEventListener("input", () => {
      this.views.forEach((view, i) => this.updateErrors(view, this.final[i]));
      document.getElementById("strength-value").value = `${this.input.value} %${this.means()}`;
      redraw();
    });
  }

  /** Return the mean errors of the blends, which the captions give for 100 % only. */
  means() {
    const known = this.views.filter((view) => view.mesh.errors);
    const means = known.map(({ mesh }) => meanOf(mesh.errors));
    const texts = means.map((mean, i) => `${known[i].mesh.name} ${mean.toFixed(3)}`);
    return texts.length ? `, mean ${texts.join(", ")} ${known[0].scene.unit}` : "";
  }

  /** Recompute the errors of a blend, as far as vertices correspond to the reference's. */
  updateErrors(view, final) {
    const { mesh, scene } = view;
    const truth = scene.meshes[scene.reference];
    if (!final || scene.meshes[view.index].face !== truth.face) return;
    mesh.errors = this.value === 1 ? final : this.errorsOf(mesh, this.reference(scene), scene);
    view.recolor("error", errorColors(mesh.errors, scene.scaleEnd, scene.arrays.ramp));
  }

  /** Return the distances of blended vertices from a reference. */
  errorsOf({ origin, position }, target, { errorPerStep }) {
    const t = this.value, errors = new Float32Array(position.length / 3);
    for (let i = 0, k = 0; i < errors.length; i++, k += 3) {
      const x = origin[k] + t * (position[k] - origin[k]) - target[k];
      const y = origin[k + 1] + t * (position[k + 1] - origin[k + 1]) - target[k + 1];
      const z = origin[k + 2] + t * (position[k + 2] - origin[k + 2]) - target[k + 2];
      errors[i] = Math.sqrt(x * x + y * y + z * z) * errorPerStep;
    }
    return errors;
  }

  reference(scene) {
    return scene.arrays[scene.meshes[scene.reference].position];
  }
}

/** Two meshes on top of each other, one on each side of a divider. */
class Comparison {
  constructor(views, redraw) {
    this.panels = document.querySelector(".panels");
    this.switch = document.getElementById("compare");
    this.divider = document.querySelector(".divider");
    this.figures = views.map((view) => view.canvas.closest("figure"));
    this.part = 0.5;
    if (!this.switch) return;
    this.sides = ["left", "right"].map((side) => document.getElementById(side));
    for (const input of [this.switch, ...this.sides]) {
      input.addEventListener("change", () => { this.arrange(); redraw(); });
    }
    this.divider.addEventListener("pointerdown", (event) => {
      this.divider.setPointerCapture(event.pointerId);
      event.preventDefault();
    });
    this.divider.addEventListener("pointermove", (event) => {
      if (!this.divider.hasPointerCapture(event.pointerId)) return;
      const box = this.panels.getBoundingClientRect();
      this.move((event.clientX - box.left) / box.width);
    });
    this.divider.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -0.02, ArrowRight: 0.02, Home: -1, End: 1 }[event.key];
      if (!step) return;
      event.preventDefault();
      this.move(this.part + step);
    });
    this.arrange();
  }

  get active() {
    return Boolean(this.switch && this.switch.checked);
  }

  /** Return the indices of the left and the right mesh. */
  get pair() {
    return this.sides.map((side) => Number(side.value));
  }

  toggle() {
    this.switch?.click();
  }

  move(part) {
    this.part = Math.min(Math.max(part, 0), 1);
    const percent = 100 * this.part;
    this.divider.style.left = `${percent}%`;
    this.divider.setAttribute("aria-valuenow", Math.round(percent));
    this.figures.forEach((figure) => { figure.querySelector("canvas").style.clipPath = ""; });
    if (!this.active) return;
    const [left, right] = this.pair.map((index) => this.figures[index].querySelector("canvas"));
    left.style.clipPath = `inset(0 ${100 - percent}% 0 0)`;
    right.style.clipPath = `inset(0 0 0 ${percent}%)`;
  }

  arrange() {
    this.panels.classList.toggle("compare", this.active);
    const [left, right] = this.pair;
    this.figures.forEach((figure, i) => {
      figure.classList.toggle("left", this.active && i === left);
      figure.classList.toggle("right", this.active && i === right && i !== left);
    });
    this.move(this.part);
  }
}

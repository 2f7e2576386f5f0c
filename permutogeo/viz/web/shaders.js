"use strict";
// Vertex and fragment shader: perspective, flat shading. The lights are those of the PNG renderer.

const VERTEX_SHADER = `#version 300 es
  layout(location = 0) in vec3 position;   // in the unit cube
  layout(location = 1) in vec3 normal;     // of points; triangles take that of their plane
  layout(location = 2) in vec3 color;
  layout(location = 3) in vec3 origin;     // position at strength 0
  uniform mat3 rotation;
  uniform vec4 frame;                      // scale and shift from the image plane to the canvas
  uniform float distance, pointSize, strength;
  uniform bool isLine;
  out vec3 place, direction, tint;
  void main() {
    place = 2.0 * mix(origin, position, strength) - 1.0;
    direction = normal;
    tint = color;
    vec3 view = rotation * place;
    float depth = distance - view.z, near = distance - 1.01, far = distance + 1.01;
    float z = ((far + near) * depth - 2.0 * far * near) / (far - near);
    if (isLine) z -= 0.003 * depth;          // edges in front of their triangles
    gl_Position = vec4(frame.xy * view.xy + frame.zw * depth, z, depth);
    gl_PointSize = max(pointSize / depth, 2.0);
  }`;

const FRAGMENT_SHADER = `#version 300 es
  precision highp float;
  in vec3 place, direction, tint;
  uniform mat3 rotation;
  uniform bool isCloud, isLine;
  uniform vec4 key, fill;                  // direction, strength
  uniform float ambient, back, softness;
  out vec4 pixel;
  void main() {
    if (isLine) {
      pixel = vec4(0.05, 0.06, 0.08, 0.55);
      return;
    }
    vec3 normal;
    if (isCloud) {
      if (length(2.0 * gl_PointCoord - 1.0) > 1.0) discard;
      normal = rotation * direction;
      if (normal.z < 0.0) normal = -normal;
    } else {
      // The normal of the triangle: flat shading.
      normal = rotation * cross(dFdx(place), dFdy(place));
    }
    normal = normalize(normal);
    float light = ambient + key.w * max(dot(normal, key.xyz), 0.0)
                          + fill.w * max(dot(normal, fill.xyz), 0.0);
    if (!isCloud && !gl_FrontFacing) light *= back;
    pixel = vec4(min(tint * mix(light, 1.0, softness), 1.0), 1.0);
  }`;

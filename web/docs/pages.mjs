/** The pages of the site, their order, and their Markdown files. */

/** The sections of the navigation; a name stands for a page of ELSEWHERE, else for docs/NAME.md. */
export const SECTIONS = [
  {
    title: "Begin",
    pages: [
      "index",
      "how-it-works",
      "is-it-for-me",
      "getting-started",
      "embed",
      "frameworks",
      "frames",
      "examples",
    ],
  },
  {
    title: "Use",
    pages: [
      "api",
      "cli",
      "serve",
      "settings",
      "json-schema",
      "methods",
      "drafters",
      "adapters",
      "papers",
      "models",
      "built-in-pair",
      "troubleshooting",
    ],
  },
  { title: "Measure", pages: ["performance", "benchmarks", "other-engines", "gpus", "gpu-audit", "gpus-d3d12-metal"] },
  {
    title: "Inside",
    pages: ["architecture", "reliability", "attacks", "security", "contributing", "extending", "publishing"],
  },
  {
    title: "Why",
    pages: [
      "why-spec",
      "why-kernels",
      "why-webgpu",
      "why-simd",
      "why-session",
      "why-models",
      "why-web",
      "why-serve",
      "why-bench",
    ],
  },
];

/** Pages from other folders of the repository, by their names on the site. */
export const ELSEWHERE = {
  "built-in-pair": "models/demo/README.md",
  examples: "docs/examples/README.md",
  security: "SECURITY.md",
  "why-spec": "spec/DECISIONS.md",
  "why-kernels": "webgpu/kernels/DECISIONS.md",
  "why-webgpu": "webgpu/DECISIONS.md",
  "why-simd": "webgpu/simd/DECISIONS.md",
  "why-session": "internal/DECISIONS.md",
  "why-models": "models/DECISIONS.md",
  "why-web": "web/DECISIONS.md",
  "why-serve": "cmd/foretoken/serve/DECISIONS.md",
  "why-bench": "bench/DECISIONS.md",
};

/** Short titles for the navigation. */
export const SHORT = {
  index: "Overview",
  "built-in-pair": "The built-in pair",
  "why-spec": "Drafting and verifying",
  "why-kernels": "Kernels",
  "why-webgpu": "Devices",
  "why-simd": "The cpu device",
  "why-session": "A session's life",
  "why-models": "Models and text",
  "why-web": "The page",
  "why-serve": "The server",
  "why-bench": "Measuring",
};

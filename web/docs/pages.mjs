/** The pages of the site, their order, and their Markdown files. */

/** The sections of the navigation; a name stands for docs/NAME.md. */
export const SECTIONS = [
  { title: "Begin", pages: ["index", "is-it-for-me", "getting-started", "embed", "frameworks", "frames"] },
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
      "models",
      "troubleshooting",
    ],
  },
  { title: "Measure", pages: ["performance", "benchmarks", "other-engines", "gpus", "gpu-audit", "gpus-d3d12-metal"] },
  {
    title: "Inside",
    pages: ["architecture", "decisions", "reliability", "attacks", "contributing", "extending", "publishing"],
  },
];

/** Pages from other folders of the repository, by their names on the site. */
export const ELSEWHERE = {
  "built-in-pair": "models/demo/README.md",
  examples: "docs/examples/README.md",
  security: "SECURITY.md",
};

/** Short titles for the navigation. */
export const SHORT = {
  index: "Overview",
  "built-in-pair": "The built-in pair",
};

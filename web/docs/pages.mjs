/** What pages the site has, in which order, and where each page's Markdown is. */

/** Sections of the navigation; names are those of docs/NAME.md. */
export const SECTIONS = [
  { title: "Begin", pages: ["index", "getting-started", "embed"] },
  { title: "Use", pages: ["api", "cli", "methods", "models", "troubleshooting"] },
  { title: "Measure", pages: ["performance", "benchmarks"] },
  { title: "Inside", pages: ["architecture", "reliability", "contributing"] },
];

/** Pages that lie elsewhere in the repository, by the name they have on the site. They are linked from others. */
export const ELSEWHERE = { "built-in-pair": "models/demo/README.md", examples: "docs/examples/README.md", security: "SECURITY.md" };

/** Titles in the navigation where the heading is too long for it. */
export const SHORT = {
  index: "Overview",
  "built-in-pair": "The built-in pair",
};

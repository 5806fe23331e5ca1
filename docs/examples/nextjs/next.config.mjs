export default {
  output: "export",
  basePath: "/nextjs",
};

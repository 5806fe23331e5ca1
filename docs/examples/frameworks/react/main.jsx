import { createRoot } from "react-dom/client";
import { Stack } from "./stack.jsx";

createRoot(document.getElementById("app")).render(<Stack />);

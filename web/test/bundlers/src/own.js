import { Foretoken } from "foretoken";
import { tell } from "./tell.js";

tell(Foretoken).then((got) => postMessage(got));

import "../style/tokens.css";
import "../style/ground.css";
import "../style/shell.css";
import "../style/screen.css";
import { render } from "preact";
import { App } from "./shell";
import { show } from "./theme";

show();
render(<App />, document.body);

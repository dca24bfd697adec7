import "./styles/base.css";
import "./styles/ui.css";
import "./styles/pages.css";
import "./styles/job.css";
import "./styles/rich.css";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./app";
import { applyTheme } from "./theme";

applyTheme();
createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <App />
  </StrictMode>,
);

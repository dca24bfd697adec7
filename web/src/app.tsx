// The frame around every page: navigation, theme, shortcuts, the token.
import { Component, lazy, Suspense, useEffect, useLayoutEffect, useState, useSyncExternalStore, type ReactNode } from "react";
import { jobLink, session } from "./api/http";
import { JobsPage } from "./pages/jobs";
import { NewJobPage } from "./pages/newjob";
import { TokenGate } from "./pages/token";
import { go, href, setQuery, usePlace } from "./router";
import { nextTheme, setTheme, useTheme } from "./theme";
import { Button, Empty, IconButton, Loading } from "./ui/controls";
import { Logo } from "./ui/icons";
import { LinkDialog } from "./ui/link";
import { ShortcutOverlay, useShortcut } from "./ui/shortcuts";
import { Toasts } from "./ui/toast";

const JobPage = lazy(() => import("./pages/job"));
const ProjectsPage = lazy(() => import("./pages/projects"));

export function App() {
  const place = usePlace();
  const [help, setHelp] = useState(false);
  const theme = useTheme();
  const gate = useSyncExternalStore(session.subscribe, () => session.needed);
  const token = useSyncExternalStore(session.subscribe, () => session.token);
  useShortcut("?", "Show this", "Everywhere", () => setHelp(true));
  useShortcut("g j", "Go to the jobs", "Everywhere", () => go(href.jobs));
  useShortcut("n", "New job", "Everywhere", () => go(href.create));
  useShortcut("t", "Light, dark, as the system", "Everywhere", () => setTheme(nextTheme(theme)));

  const [first, id] = place.path;
  const link = place.query.get("link");
  useLayoutEffect(() => {
    // Out of the address, so that it is in no history and no bookmark.
    if (link && first === "jobs" && id) {
      jobLink.set(id, link);
      setQuery({ link: null });
    }
  }, [link, first, id]);
  const page = first === "jobs" && id ? "job" : first === "new" ? "new" : first === "projects" ? "projects" : "jobs";
  useEffect(() => {
    if (page !== "job") document.title = page === "new" ? "New job \u2013 Glovebox" : page === "projects" ? "Project memory \u2013 Glovebox" : "Jobs \u2013 Glovebox";
  }, [page]);

  return (
    <>
      <a
        className="skip"
        href="#main"
        onClick={(e) => {
          e.preventDefault();
          document.getElementById("main")?.focus();
        }}
      >
        Skip to the content
      </a>
      <header className="top">
        <a className="brand" href={href.jobs} aria-label="Glovebox, jobs">
          <Logo />
          <span>Glovebox</span>
        </a>
        <nav aria-label="Main">
          <a href={href.jobs} aria-current={page === "jobs" ? "page" : undefined}>
            Jobs
          </a>
          <a href={href.create} aria-current={page === "new" ? "page" : undefined}>
            New job
          </a>
          <a href={href.projects} aria-current={page === "projects" ? "page" : undefined}>
            Projects
          </a>
        </nav>
        <div className="top-end">
          {token && (
            <Button kind="quiet" small onClick={() => session.set("")}>
              Sign out
            </Button>
          )}
          <IconButton icon={theme === "system" ? "auto" : theme === "light" ? "sun" : "moon"} label={`Theme: ${theme === "system" ? "as the system" : theme}`} onClick={() => setTheme(nextTheme(theme))} />
          <IconButton icon="keyboard" className="no-phone" label="Keyboard shortcuts (?)" onClick={() => setHelp(true)} />
        </div>
      </header>
      <main id="main" tabIndex={-1} className={`page-${page}`}>
        <Guard key={place.path.join("/")}>
          <Suspense fallback={<Loading />}>
            {link ? <Loading /> : gate ? <TokenGate /> : page === "job" ? <JobPage key={id! + token} id={id!} /> : page === "new" ? <NewJobPage key={token} /> : page === "projects" ? <ProjectsPage key={(id ?? "") + token} name={id} /> : <JobsPage key={token} />}
          </Suspense>
        </Guard>
      </main>
      <LinkDialog />
      <Toasts />
      {help && <ShortcutOverlay onClose={() => setHelp(false)} />}
    </>
  );
}

/** Keeps a fault of one page from taking the others along. */
class Guard extends Component<{ children: ReactNode }, { fault: string }> {
  override state = { fault: "" };

  static getDerivedStateFromError(err: unknown) {
    return { fault: err instanceof Error ? err.message : String(err) };
  }

  override render() {
    if (!this.state.fault) return this.props.children;
    return (
      <Empty icon="warn" title="This page failed">
        <p>{this.state.fault}</p>
        <Button kind="primary" onClick={() => location.reload()}>
          Load it again
        </Button>
      </Empty>
    );
  }
}

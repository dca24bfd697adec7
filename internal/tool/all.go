package tool

// All returns every tool, in the order in which the model is shown them. The
// order is part of what a request begins with, so it is constant.
func All() []Tool {
	return []Tool{
		Shell(), ShellOutput(), ShellInput(), ShellStop(),
		ReadFile(), WriteFile(), EditFile(), ApplyPatch(), MoveFile(), DeleteFile(), ListFiles(), SearchFiles(),
		InstallPackage(), RunTests(), Code(), ReadOutput(), Preview(), GUI(),
		Recall(), OpenEvent(), Note(), SetPlan(), AskUser(), FinishJob(),
	}
}

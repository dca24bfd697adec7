#!/bin/sh
# Runs one real job in the terminal: a live model where one is configured, the
# recorded conversation otherwise. The tools run for real in both cases. Beside
# the project it leaves what the verification saw: the page, as a picture.
set -eu
cd "$(dirname "$0")/.."

out=out/todo-react
if [ -z "${GLOVEBOX_MODEL:-}${ANTHROPIC_API_KEY:-}${OPENAI_API_KEY:-}${GEMINI_API_KEY:-}" ]; then
	echo "No model is configured, so a recorded conversation plays the model's part;"
	echo "every tool call in it is really run in the sandbox."
	set -- --model "replay:$PWD/examples/todo-react/conversation.replay"
fi
rm -rf "$out" "$out.zip" "$out"-verification-* # of the run before: the next one would go beside it
exec bin/glovebox run "$@" --out "$out" "Build me a todo app in React"

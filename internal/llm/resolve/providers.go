package resolve

import (
	"time"

	"github.com/glovebox-dev/glovebox/internal/llm"
	"github.com/glovebox-dev/glovebox/internal/llm/anthropic"
	"github.com/glovebox-dev/glovebox/internal/llm/chat"
	"github.com/glovebox-dev/glovebox/internal/llm/gemini"
	"github.com/glovebox-dev/glovebox/internal/llm/openai"
	"github.com/glovebox-dev/glovebox/internal/llm/wire"
)

// providers are the ways to reach a live model.
var providers = map[string]provider{
	"anthropic": {
		keys: []string{"ANTHROPIC_API_KEY"}, urls: []string{"ANTHROPIC_BASE_URL"},
		open: func(c wire.Config) llm.Model { return anthropic.New(c) },
	},
	"openai": {
		keys: []string{"OPENAI_API_KEY"}, urls: []string{"OPENAI_BASE_URL"},
		open: func(c wire.Config) llm.Model { return openai.New(c) },
	},
	"gemini": {
		keys: []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"}, urls: []string{"GEMINI_BASE_URL", "GOOGLE_GEMINI_BASE_URL"},
		open: func(c wire.Config) llm.Model { return gemini.New(c) },
	},
	"chat": {
		keys: []string{"CHAT_API_KEY"}, keyless: true, urls: []string{"CHAT_BASE_URL"}, url: chat.DefaultURL,
		first: 15 * time.Minute, // a processor of one's own reads a long prompt slowly
		open:  func(c wire.Config) llm.Model { return chat.New(c) },
	},
}

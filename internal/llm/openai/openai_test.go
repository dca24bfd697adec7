package openai

import (
	"testing"

	"github.com/glovebox-dev/glovebox/internal/leaktest"
	"github.com/glovebox-dev/glovebox/internal/llm"
	"github.com/glovebox-dev/glovebox/internal/llm/llmtest"
	"github.com/glovebox-dev/glovebox/internal/llm/wire"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestProvider(t *testing.T) {
	t.Parallel()
	llmtest.Exercise(t, llmtest.OpenAI, func(c wire.Config) llm.Model { return New(c) })
}

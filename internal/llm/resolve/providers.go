package resolve

// providers are the ways to reach a live model.
var providers = map[string]provider{}

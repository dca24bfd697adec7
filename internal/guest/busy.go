package guest

// Busy reports whether anything goes on over the session: a call, a terminal,
// the screen, a port, an egress connection. Streams that are kept open for
// further calls do not count.
func (c *Client) Busy() bool {
	c.calls.mu.Lock()
	idle := len(c.calls.idle)
	c.calls.mu.Unlock()
	c.pipeMu.Lock()
	idle += len(c.pipes)
	c.pipeMu.Unlock()
	return c.mux.NumStreams() > idle
}

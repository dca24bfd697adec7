package wire

// SpareMark is what the daemon writes to a spare connection, on which it then
// waits for a session to begin. A driver that freezes machines gives each one
// such a connection, as standard output of the daemon, and a machine that
// goes on from the frozen one another in its place.
const SpareMark = 'G'

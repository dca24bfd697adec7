package memory

// What a block at the beginning of an epoch's first message is part of.
const (
	PartHead   = "head"   // never folded: the task, instructions, the plan
	PartFolded = "folded" // stands for what is no longer there word for word
)

// Parts returns what each of the first blocks of the first message of the
// request is part of. The blocks after them are there word for word. The
// caller must not change it.
func (b *Builder) Parts() []string {
	b.catchUp(true)
	return b.opening.parts
}

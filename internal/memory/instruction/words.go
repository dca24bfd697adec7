package instruction

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"

	"github.com/glovebox-dev/glovebox/internal/clip"
)

// Bounds of what is looked at of a message to find out what it asks for.
const (
	maxScanned   = 16 << 10 // bytes
	maxSentences = 40
	maxSentence  = 400 // bytes that are kept of one
	maxWords     = 24  // content words that are kept of one
)

// sentence is one sentence of a message that asks for something.
type sentence struct {
	text     string
	words    []uint64 // hashes of the words that it is about, sorted
	negative bool     // it forbids
	cue      bool     // it says that it takes the place of something
	value    bool     // it chooses a value: "use X for Y"

	replacedBy int64 // the event of what took its place; 0 if nothing did
	seeAlso    int64 // the event of what speaks of the same later; 0 if nothing does
}

// sentences cuts a text at line ends and at the ends of sentences.
func sentences(text string, f func(s string) bool) {
	if len(text) > maxScanned {
		text = text[:maxScanned]
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		for line != "" {
			end := sentenceEnd(line)
			s := strings.TrimLeft(line[:end], " \t-*+>#0123456789.)")
			line = strings.TrimSpace(line[end:])
			if s = strings.TrimSpace(s); s != "" && !f(s) {
				return
			}
		}
	}
}

// sentenceEnd returns where the first sentence of a line ends: at a mark that
// is followed by a space, but not within "e.g." or "v1.2".
func sentenceEnd(line string) int {
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case '!', '?', ';':
		case '.':
			if i >= 3 && (line[i-2] == '.' || line[i-2] == ' ') { // e.g., i.e., z. B.
				continue
			}
		default:
			continue
		}
		if i+1 == len(line) || line[i+1] == ' ' || line[i+1] == '\t' {
			return i + 1
		}
	}
	return len(line)
}

// tokens returns the words of a text, in lower case. Apostrophes stay in them.
func tokens(s string) []string {
	words := strings.FieldsFunc(apostrophes.Replace(strings.ToLower(s)), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '\'' && r != '_' && r != '-' && r != '.' && r != '/' && r != '@'
	})
	for i, w := range words {
		words[i] = strings.TrimRight(w, "./-'")
	}
	return slices.DeleteFunc(words, func(w string) bool { return w == "" })
}

// apostrophes makes one sign of those that people type.
var apostrophes = strings.NewReplacer("\u2019", "'", "`", "'")

// lexicon is phrases, by their first words.
type lexicon map[string][][]string

func phrases(list string) lexicon {
	out := lexicon{}
	for p := range strings.SplitSeq(list, ",") {
		if f := strings.Fields(p); len(f) > 0 {
			out[f[0]] = append(out[f[0]], f)
		}
	}
	return out
}

// in reports whether one of the phrases is in words.
func in(words []string, list lexicon) bool {
	for i := range words {
		if begins(words[i:], list) {
			return true
		}
	}
	return false
}

// begins reports whether words begin with one of the phrases.
func begins(words []string, list lexicon) bool { return prefix(words, list) > 0 }

// prefix returns how many words at the beginning are one of the phrases.
func prefix(words []string, list lexicon) int {
	if len(words) == 0 {
		return 0
	}
	for _, p := range list[words[0]] {
		if len(p) <= len(words) && slices.Equal(p, words[:len(p)]) {
			return len(p)
		}
	}
	return 0
}

// The words by which it can be told what a sentence does, in English, German,
// French and Spanish. They are a reading, not a grammar: a wish that is taken
// for a remark, or a remark for a wish, moves a little up or down and is kept
// in any case.
var (
	// standing words make a wish that stays, even in an answer to a question.
	standing = phrases(`always, never, from now on, from here on, from this point on, henceforth, at all times, under no circumstances, no longer, any more, anymore, in future, in the future, whenever, every time,
		immer, stets, nie, niemals, ab jetzt, ab sofort, von jetzt an, von nun an, künftig, in zukunft, nicht mehr, auf keinen fall, keinesfalls,
		toujours, jamais, désormais, dorénavant, à partir de maintenant, en aucun cas, ne plus,
		siempre, nunca, jamás, a partir de ahora, desde ahora, de ahora en adelante, en ningún caso, ya no`)

	// ruling words make a wish that mostly stays, where there is one.
	ruling = phrases(`must, mustn't, has to, don't, dont, do not, not allowed, may not, forbidden, required, mandatory, prefer, preferably, only, instead, rather than, make sure, ensure, be sure, should, shouldn't, avoid, stick to, stay with,
		we use, off limits, hands off, every, each, all, any, without, no, use, keep, remember to, unless, except,
		muss, musst, müssen, darf, dürfen, soll, sollen, sollte, sollten, kein, keine, keinen, keinerlei, nicht, nur, statt, stattdessen, anstatt, anstelle, bevorzuge, lieber, vermeide, achte darauf, stell sicher, stelle sicher, wir verwenden, wir nutzen, verwende, benutze, nutze, ohne, jede, jeder, jedes, alle, außer,
		doit, doivent, devez, il faut, il ne faut pas, pas, sans, n'utilise, n'utilisez, utilise, utilisez, préfère, préférez, évite, évitez, seulement, uniquement, assure-toi, assurez-vous, plutôt, au lieu de, on utilise, nous utilisons, chaque, tous, toutes, sauf,
		debe, deben, hay que, sin, usa, utiliza, prefiere, evita, solo, sólo, solamente, únicamente, asegúrate, en lugar de, en vez de, usamos, cada, todos, todas, salvo`)

	// wishes make a wish, of once or for good.
	wishes = phrases(`must, mustn't, must not, don't, dont, do not, doesn't have to, prefer, preferably, only, instead, rather than, make sure, ensure, be sure, remember to, should, shouldn't,
		has to, have to, needs to, need to, not allowed, forbidden, required, mandatory, i want, i'd like, i would like, we want, we use, stick to, stay with, avoid, let's, can you, could you, would you, please, forget, scrap, drop, never mind, is off limits, off limits, hands off, leave,
		muss, musst, müssen, darf, darfst, dürfen, soll, sollst, sollen, sollte, sollten, bitte, nur, statt, stattdessen, anstatt, anstelle, bevorzuge, lieber, vermeide, achte darauf, stell sicher, stelle sicher, ich will, ich möchte, ich hätte gern, wir verwenden, wir nutzen, vergiss, kein, keine, keinen, keinerlei, kannst du, könntest du, lass,
		doit, dois, devez, doivent, il faut, il ne faut pas, préfère, préfères, préférez, évite, évitez, seulement, uniquement, assure-toi, assurez-vous, plutôt, au lieu de, à la place, je veux, je voudrais, on utilise, nous utilisons, oublie, oubliez, arrête, arrêtez, s'il te plaît, s'il vous plaît, pas de, peux-tu, pouvez-vous,
		debe, debes, deben, hay que, no hay que, prefiere, prefiero, evita, evite, solo, sólo, solamente, únicamente, asegúrate, asegúrese, en lugar de, en vez de, mejor, quiero, quisiera, usamos, olvida, olvide, deja de, por favor, nada de, puedes, podrías`)

	// verbs begin a sentence that asks for something.
	verbs = phrases(`use, add, make, keep, write, put, name, call, remove, delete, rename, change, replace, fix, create, build, implement, run, test, set, switch, move, do, stop, start, show, hide, store, save, load, read, check, follow, respect,
		format, indent, document, deploy, install, configure, include, exclude, support, handle, return, log, print, commit, push, work, focus, continue, finish, skip, ignore, undo, revert, restore, update, upgrade, downgrade, pin, limit, target, treat, leave, let, give, ask, tell, answer, speak, translate, wait, try, go, look, turn, split, merge, refactor, simplify, drop, cancel, apply, without, no, not, stay, stick, also, then, be, get, take, port, extend, reuse, validate, sort, wrap, cache, encrypt,
		verwende, verwenden, benutze, benutz, nutze, nimm, mach, mache, füge, schreib, schreibe, lösche, entferne, ändere, ersetze, erstelle, baue, bau, teste, setze, nenne, halte, zeige, prüfe, behebe, installiere, lauf, stoppe, fang, höre, hör, ohne, nicht, antworte, sprich, frag, frage, lege, leg, speichere,
		utilise, utilisez, n'utilise, n'utilisez, ajoute, ajoutez, fais, faites, garde, gardez, écris, écrivez, mets, mettez, supprime, supprimez, renomme, change, changez, remplace, remplacez, corrige, crée, créez, teste, testez, ne, n'ajoute, sans, réponds, répondez, montre, vérifie, nomme,
		usa, use, utiliza, utilice, no, añade, agrega, haz, haga, mantén, escribe, escriba, pon, ponga, borra, elimina, renombra, cambia, cambie, reemplaza, corrige, crea, prueba, sin, responde, muestra, verifica, nombra, guarda`)

	// talk begins what is no wish, though its first word could begin one.
	talk = phrases(`no problem, no worries, no idea, no rush, no need, no thanks, not bad, not sure, not yet, not really, looks good, look good, well done, good job, let me know, i don't know, i do not know, don't know, no lo sé, no sé, no hay problema, de nada, ich weiß nicht, weiß nicht, je ne sais pas, ne t'inquiète pas, don't worry, do not worry, be right back, get well`)

	// polite words come before a wish and say nothing.
	polite = phrases(`please, pls, and, also, but, ok, okay, so, well, hi, hello, hey, now, then, actually, by the way, btw, oh, one more thing, note, important, rule, reminder, bitte, und, aber, also, hallo, übrigens, wichtig, s'il te plaît, s'il vous plaît, et, mais, alors, important, bonjour, por favor, y, pero, hola, importante, además`)

	// negations make a wish that forbids.
	negations = phrases(`never, don't, dont, do not, must not, mustn't, should not, shouldn't, not, no, avoid, without, stop, no longer, cannot, can't, forbidden, off limits, nie, niemals, nicht, kein, keine, keinen, keinerlei, vermeide, ohne, jamais, pas, ne, n', sans, évite, évitez, n'utilise, n'utilisez, nunca, jamás, no, sin, evita`)

	// cues say that something takes the place of something else.
	cues = phrases(`instead, instead of, no longer, any more, anymore, forget, scrap, rather than, changed my mind, change of plan, change of plans, never mind, nevermind, ignore what, ignore my, disregard, cancel, undo, revert, switch to, switch back, replace, drop the, drop that, on second thought, not any longer, after all, is off, take back, overrule, contrary to,
		statt, stattdessen, anstatt, anstelle, nicht mehr, vergiss, doch nicht, doch lieber, ich habe es mir anders überlegt, anders überlegt, rückgängig, wechsle, ersetze, nun doch,
		au lieu, à la place, plutôt, oublie, oubliez, ne plus, n'utilise plus, j'ai changé d'avis, changé d'avis, finalement, annule, remplace, laisse tomber,
		en lugar, en vez, ya no, olvida, olvide, cambié de idea, he cambiado de opinión, cambia a, cancela, reemplaza, al final, mejor`)

	// backward words point to what was said before.
	backward = phrases(`that, this, it, the last, the previous, what i said, my last, my previous, the above, das, dies, es, die letzte, cela, ça, ce que j'ai dit, eso, esto, lo anterior, lo que dije, mind, nevermind`)

	// choices are the verbs of which only one object can be right.
	choices = phrases(`use, prefer, name, call, set, choose, pick, switch, target, run on, listen on, indent, should be, must be, is, stick to, format with, write in, answer in, speak, deploy to, store, we use, verwende, benutze, nutze, nimm, nenne, soll, antworte, utilise, utilisez, préfère, nomme, réponds, usa, utiliza, prefiere, nombra, responde`)
)

// nothing are words that say nothing about what a sentence is about.
var nothing = func() map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(`a an the this that these those it its is are was were be been being am do does did done have has had having will would shall should can could may might must to of in on at by for from with without into onto
		about as and or but if then than so not no yes all any each every some more most other another such own same too very just also only even still yet again please pls always never ever now here there when where which who whom what why how
		i me my we us our you your he him his she her they them their use using used make sure ensure keep prefer instead rather don't dont doesn't isn't aren't let let's want need needs like one ones everything anything something nothing stuff thing things way
		from anymore longer scrap forget actually changed mind plan put write add set get go run always file files code project
		der die das den dem des ein eine einen einem einer und oder aber wenn dann als so nicht kein keine keinen ja nein alle jede jeder jedes immer nie niemals stets nur noch auch schon mal bitte ist sind war waren sein wird werden hat haben soll sollen sollte muss müssen darf kann können ich du wir ihr sie er es mich mir dich dir uns euch mein dein unser im in am an auf aus bei mit nach von zu zum zur für über unter vor durch um ohne statt stattdessen verwende benutze nutze nimm mach ab jetzt sofort mehr lieber doch
		le la les l' un une des du de d' et ou mais si alors que qui quoi ne n' pas plus jamais toujours est sont était être a ai as ont avoir fait faire dans sur sous avec sans pour par au aux en ce cet cette ces mon ton son notre votre leur je tu il elle nous vous ils elles on te me se y utilise utilisez il faut doit dois devez désormais plutôt lieu place à
		el los las un una unos unas y o pero si entonces que quien no nunca siempre es son era ser está están ha han haber hay en con sin para por al del a de lo su sus mi mis tu tus nuestro yo tú él ella nosotros ellos usa utiliza use debe debes solo sólo ya más lugar vez mejor se te me nos`) {
		m[w] = true
	}
	return m
}()

// about returns the content words of a sentence: hashes of their stems, sorted.
func about(words []string) []uint64 {
	var out []uint64
	for _, w := range words {
		w = strings.Trim(w, "'-./")
		if len(w) < 2 || nothing[w] || len(out) >= maxWords {
			continue
		}
		if h := xxhash.Sum64String(stem(w)); !slices.Contains(out, h) {
			out = append(out, h)
		}
	}
	slices.Sort(out)
	return out
}

// stem cuts common endings, so that "tests", "testing" and "test" meet.
func stem(w string) string {
	if strings.ContainsAny(w, "0123456789./@_-") || len(w) < 5 {
		return clip.Short(strings.TrimSuffix(w, "'s"), 40)
	}
	for _, end := range []string{"'s", "ing", "ies", "es", "ed", "s", "en", "e"} {
		if t := strings.TrimSuffix(w, end); t != w && utf8.RuneCountInString(t) >= 4 {
			return clip.Short(t, 40)
		}
	}
	return clip.Short(w, 40)
}

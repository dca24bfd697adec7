package membench

// Of what facts are made. None of it was chosen by what the search finds.

// identifiers are forms of facts of kind exact: how the identifier is spelled,
// what is said of it and what is asked.
var identifiers = []struct{ name, says, asks string }{
	{"lease-%s", "The worker that held %s was moved to node n-%s.", "Which node was the worker with %s moved to?"},
	{"sha-%s", "Bisecting ended at %s, which broke the suite named s-%s.", "Which suite did %s break?"},
	{"/srv/data/%s.parquet", "Rows of %s were checked against the sum c-%s.", "What sum were the rows of %s checked against?"},
	{"ERR_%s", "%s means that the upstream closed stream q-%s too early.", "Which stream does %s say was closed?"},
	{"test_import_%s", "%s fails only when fixture x-%s is loaded first.", "Which fixture makes %s fail?"},
	{"req-%s", "The slow request %s waited for the lock w-%s.", "Which lock did %s wait for?"},
}

// sayings are forms of facts of kind paraphrase: the statement and the
// question have no content word in common but the two that are filled in.
var sayings = []struct{ says, asks string }{
	{"Turns out the %s gives up on the %s after %s tries.", "How often does the %s attempt to reach the %s at most?"},
	{"We settled on port %[3]s, where %[1]s and %[2]s meet.", "Which number is used between %s and %s?"},
	{"Between %s and %s nothing larger than %s bytes gets through.", "What is the size limit from the %s towards the %s?"},
	{"It took %[3]s ms until the %[1]s noticed that its %[2]s had gone.", "How long was the delay before the %s saw the loss of the %s?"},
	{"Ticket %[3]s is about the odd colours of the %[1]s inside the %[2]s.", "Under what issue do we track the wrong palette of %s in %s?"},
	{"Nobody but account %[3]s may restart the %[1]s behind the %[2]s.", "Who is allowed to reboot the %s that sits with the %s?"},
	{"The %[1]s was seen dropping every %[3]sth item of the %[2]s.", "At what rate does the %s lose entries from the %s?"},
	{"Remember the magic offset %[3]s when you pack a %[1]s into the %[2]s.", "What position has to be added for storing the %s within the %s?"},
	{"Upgrading the %[1]s needs build %[3]s, older ones corrupt the %[2]s.", "Which minimum version of %s does not damage the %s?"},
	{"For the %[1]s we pay invoice %[3]s, the %[2]s comes free with it.", "On what bill do we find the %s with its %s?"},
}

// things are the content words of facts of kind paraphrase: some are all over
// the recorded runs, some in none of them.
var things = []string{
	"scheduler", "ledger", "gateway", "replica", "thumbnail", "webhook", "quota", "mailbox", "tokenizer", "checkout",
	"inventory", "payroll", "telemetry", "beacon", "courier", "voucher", "roster", "catalog", "dashboard", "crawler",
	"migration", "backup", "firewall", "certificate", "cluster", "queue", "cache", "parser", "session", "thread",
	"buffer", "timeout", "serializer", "compiler", "listener", "registry", "snapshot", "pipeline", "router", "balancer",
	"shard", "archive", "printer", "scanner", "sensor", "turbine", "greenhouse", "harbor", "tractor", "violin",
	"lighthouse", "orchard", "ferry", "glacier", "compass", "lantern", "pendulum", "quarry", "windmill", "zeppelin",
}

// properties and birds name what facts of kind superseded are about.
var (
	properties = []string{"release branch", "staging password", "database port", "owner", "deadline", "base image", "storage bucket", "retry limit"}
	birds      = []string{"kestrel", "heron", "osprey", "plover", "wagtail", "bittern", "curlew", "dunlin"}
)

// changes say a version of a fact: the first one, and a later one.
var changes = [][2]string{
	{"The %s of %s is %s.", "The %s of %s is now %s."},
	{"For the record, the %s of %s is %s.", "We changed the %s of %s to %s."},
	{"I set the %s of %s to %s.", "Forget the old %s of %s: from today it is %s."},
	{"Use this as the %s of %s: %s", "Correction: the %s of %s has become %s."},
}

// instructions are facts of kind standing.
var instructions = []string{
	"From now on, always run the formatter with profile %s before you commit.",
	"Never touch the directory legacy-%s, whatever a test says.",
	"All new files must begin with the line \"Licence: %s\".",
	"Please always answer me in short sentences and sign with %s.",
	"Do not add dependencies without asking; the only exception is lib-%s.",
	"Always use spaces, never tabs, in files whose name begins with %s.",
	"You must keep the public API of module m-%s as it is.",
	"Every commit message has to name ticket T-%s.",
	"Never log values of the setting secret_%s.",
	"From here on, prefer small functions; the limit is what rule %s says.",
	"Don't use the network in tests, except for host h-%s.",
	"Always keep the changelog current, under the heading %s.",
}

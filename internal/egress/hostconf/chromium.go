package hostconf

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
)

// chromiumPolicy is where Chromium in the sandbox, which has a store of its
// own, is told of the certificates. It reads the file anew when it changes.
const chromiumPolicy = "/etc/chromium/policies/managed/glovebox-ca.json"

// chromiumCAs returns the policy that makes Chromium trust certificates in PEM.
func chromiumCAs(bundle []byte) []byte {
	list := []string{}
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		list = append(list, base64.StdEncoding.EncodeToString(block.Bytes))
	}
	b, _ := json.Marshal(map[string][]string{"CACertificates": list}) // strings can be encoded
	return append(b, '\n')
}

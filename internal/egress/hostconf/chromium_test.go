package hostconf

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"testing"
)

func TestChromiumIsToldOfCertificates(t *testing.T) {
	t.Parallel()
	var bundle []byte
	for _, s := range []string{"one", "two"} {
		bundle = append(bundle, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(s)})...)
	}
	c := &Config{CAs: bundle}
	var policy struct{ CACertificates [][]byte }
	if err := json.Unmarshal(c.Settings(Options{}).Files[chromiumPolicy], &policy); err != nil {
		t.Fatal(err)
	}
	if len(policy.CACertificates) != 2 || !bytes.Equal(policy.CACertificates[1], []byte("two")) {
		t.Errorf("got %q", policy.CACertificates)
	}
	if _, ok := (&Config{}).Settings(Options{}).Files[chromiumPolicy]; ok {
		t.Error("there is a policy although the host has no certificates of its own")
	}
}

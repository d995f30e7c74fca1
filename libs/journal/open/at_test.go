package open

import "testing"

// TestOthers: an entry that does not begin with a number continues with the one before.
func TestOthers(t *testing.T) {
	others, err := (&At{Databases: []string{"2=postgres://a", "b/x", "3=y"}}).others()
	if err != nil || others[2] != "postgres://a,b/x" {
		t.Errorf("%v, %v", others, err)
	}
}

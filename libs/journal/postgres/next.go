//go:build nextformat

package postgres

import (
	"fmt"
	"strings"

	"github.com/roost-cluster/roost/libs/journal"
)

// schemaBefore makes a journal of the format before.
var schemaBefore = schema

// The made-up next format stores with each record whether it was written after the activation, and has another function
// that decides batches. Programs of the format before call the function that they know, which does not name the column.
func init() {
	_, rest, _ := strings.Cut(schema, "CREATE FUNCTION roost.commit_batch(")
	body, _, _ := strings.Cut(rest, "END $$;")
	expansions[journal.Format] = fmt.Sprintf("ALTER TABLE roost.record ADD COLUMN format integer NOT NULL DEFAULT %d;\n", journal.Format-1) +
		"CREATE FUNCTION roost.commit_batch_next(" + body + `END $$;
	REVOKE ALL ON FUNCTION roost.commit_batch_next FROM PUBLIC;
	DO $$
	DECLARE r record;
	BEGIN -- who may call the function of the format before
		FOR r IN SELECT a.grantee::regrole AS role FROM pg_catalog.pg_proc p, aclexplode(p.proacl) a
			WHERE p.oid = 'roost.commit_batch'::regproc AND a.privilege_type = 'EXECUTE' AND a.grantee <> p.proowner AND a.grantee <> 0
		LOOP
			EXECUTE format('GRANT EXECUTE ON FUNCTION roost.commit_batch_next TO %s', r.role);
		END LOOP;
	END $$;
`
	activations[journal.Format] = fmt.Sprintf("ALTER TABLE roost.record ALTER COLUMN format SET DEFAULT %d;\n", journal.Format)
	schema += expansions[journal.Format] + activations[journal.Format] +
		fmt.Sprintf("UPDATE roost.meta SET format = %d, min_reader = %[1]d, min_writer = %[1]d;\n", journal.Format)
	for _, statement := range []*string{&commitSQL, &bothSQL} {
		*statement = strings.Replace(*statement, "roost.commit_batch(", "roost.commit_batch_next(", 1)
	}
}

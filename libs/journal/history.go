package journal

import "github.com/roost-cluster/roost/libs/sharding"

// HistoryRequest asks for records of an entity, the newest first.
type HistoryRequest struct {
	Entity sharding.Entity
	// Before asks for records with lower numbers only; 0: from the newest one on.
	Before uint64
	// Limit is the largest number of records, above 0. The answer also ends once the stored
	// forms of its records have Bytes bytes or more in total.
	Limit, Bytes int
}

// History is a part of the stored data of an entity, as it was at one moment after the request.
type History struct {
	LastSeq, Life, Cut uint64 // as in [Loaded]
	// SnapshotSeq is the number of the record after which the snapshot was taken; 0: there is no
	// snapshot. SnapshotBytes is the size of its stored form.
	SnapshotSeq   uint64
	SnapshotBytes int
	Records       []HistoryRecord // the newest first
	// More is true if there are earlier records. Records of earlier lives are among them until
	// they are purged, and records without the events that were trimmed.
	More bool
}

// HistoryRecord is a stored record.
type HistoryRecord struct {
	Seq   uint64
	Bytes int // size of its stored form, without the reply
	Entry     // without Err
	Err   error
}

// AddBody adds the record whose stored form is body, unless it has no room in the answer.
func (h *History) AddBody(req *HistoryRequest, seq uint64, body []byte) (added bool) {
	bytes := 0
	for i := range h.Records {
		bytes += h.Records[i].Bytes
	}
	if len(h.Records) >= req.Limit || bytes >= req.Bytes {
		h.More = true
		return false
	}
	r := HistoryRecord{Seq: seq, Bytes: len(body)}
	r.Entry, r.Err = DecodeRecord(req.Entity, seq, body)
	h.Records = append(h.Records, r)
	return true
}

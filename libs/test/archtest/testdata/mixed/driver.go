package mixed

import "time"

func stamp() int64 { return int64(next(int(time.Now().Unix()))) }

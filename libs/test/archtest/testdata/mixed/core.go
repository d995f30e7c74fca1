package mixed

func next(n int) int { return n + 1 }

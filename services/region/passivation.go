package region

func (SetPassivation) shardInput() {}
func (Collected) shardInput()      {}

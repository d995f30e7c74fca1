package entity

import "github.com/roost-cluster/roost/libs/sharding"

// AskFailed returns the error of an ask that was refused.
func AskFailed(code Code, message string) *Error {
	r := sharding.Reject(sharding.Code(code), message)
	return errorOf(&r)
}

// Package securitytest issues certificates for tests.
package securitytest

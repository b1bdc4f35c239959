//go:build tools

// Package tools keeps the temporal command among the requirements in go.mod.
package tools

import _ "github.com/temporalio/cli/cmd/temporal"

//go:build tools

// Package tools keeps bd among the requirements in go.mod.
package tools

import _ "github.com/steveyegge/beads/cmd/bd"

// Package guestpb is the generated code of guest.proto.
package guestpb

//go:generate sh -c "cd ../../.. && go build -o .tools/ google.golang.org/protobuf/cmd/protoc-gen-go connectrpc.com/connect/cmd/protoc-gen-connect-go && PATH=$PWD/.tools:$PATH protoc --go_out=. --go_opt=paths=source_relative --connect-go_out=. --connect-go_opt=paths=source_relative,package_suffix internal/guest/guestpb/guest.proto"

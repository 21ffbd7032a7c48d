module pgflash/go-tpc

go 1.21

require github.com/pingcap/go-tpc v1.0.12

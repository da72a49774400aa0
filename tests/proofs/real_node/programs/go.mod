module gpuruntime/node

go 1.24

require github.com/coredns/coredns v1.12.4

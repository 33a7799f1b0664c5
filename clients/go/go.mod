module resilience

go 1.24

module resilience

go 1.22

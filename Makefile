# Everything a developer does here, one target each. `make help` lists them.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# One set of build flags for everything, tests included: the compiled
# dependencies are then shared by builds, tests and checks.
export GOFLAGS := $(strip $(filter-out -trimpath,$(shell go env GOFLAGS)) -trimpath)
export CGO_ENABLED ?= 0

BIN := $(CURDIR)/bin
PROTOC_VERSION := 3.21.12
TEST_TIMEOUT ?= 15m
SEEDS ?= 2000

binaries := coordinator region gateway roost flights-region flights
shop := shop-region-v1 shop-region-v2 shop
bank := bank-region bank
benchmark := coordinator gateway bench-region bench
peers := protoactor temporal
tools := protoc-gen-go protoc-gen-twirp staticcheck
servers := consul

# A list with commas between its words.
empty :=
comma := ,
commas = $(subst $(empty) $(empty),$(comma),$(strip $(1)))

# Says aloud what a machine lacks, and fails in continuous integration. Arguments:
# a program, its name, what its tests are about.
lacks = PATH="$$PATH:$$(echo /usr/lib/postgresql/*/bin | tr ' ' ':')"; for program in $(1); do command -v $$program >/dev/null || { \
	echo "NOTE: there is no $(2) here; tests of $(3) $(if $(filter true,$(CI)),fail,are skipped)" >&2; break; }; done

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[^[:space:]#:$$]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: build
build: $(addprefix $(BIN)/,$(binaries)) ## Build every binary into bin/

$(BIN)/coordinator: pkg := ./services/coordinator/cmd/coordinator
$(BIN)/region: pkg := ./services/region/cmd/region
$(BIN)/gateway: pkg := ./services/gateway/cmd/gateway
$(BIN)/roost: pkg := ./cli/cmd/roost
$(BIN)/flights-region: pkg := ./examples/flights/cmd/flights-region
$(BIN)/flights: pkg := ./examples/flights/cmd/flights
$(BIN)/shop-region-v1: pkg := ./examples/shop/cmd/shop-region-v1
$(BIN)/shop-region-v2: pkg := ./examples/shop/cmd/shop-region-v2
$(BIN)/shop: pkg := ./examples/shop/cmd/shop
$(BIN)/bank-region: pkg := ./examples/bank/cmd/bank-region
$(BIN)/bank: pkg := ./examples/bank/cmd/bank
$(BIN)/bench: pkg := ./e2e/bench/cmd/bench
$(BIN)/bench-region: pkg := ./e2e/bench/cmd/bench-region

# The go command knows better than make what is out of date.
.PHONY: $(addprefix $(BIN)/,$(binaries) $(shop) $(bank) $(benchmark))
$(sort $(addprefix $(BIN)/,$(binaries) $(shop) $(bank) $(benchmark))):
	go build $(if $(LDFLAGS),-ldflags='$(LDFLAGS)') -o $@ $(pkg)

.PHONY: demo
demo: build ## Carry the flights through a cluster under faults (FLIGHTS= TOTALS= ROUTES= REPORT= FAULTS=none)
	@exec $(BIN)/flights $(if $(FLIGHTS),-flights "$(FLIGHTS)") $(if $(TOTALS),-totals "$(TOTALS)") \
		$(if $(ROUTES),-routes "$(ROUTES)") $(if $(REPORT),-report "$(REPORT)") $(if $(FAULTS),-faults "$(FAULTS)")

.PHONY: shop
shop: build $(addprefix $(BIN)/,$(shop)) ## Build the shop too: two versions of its region, and a caller

.PHONY: bank
bank: build $(addprefix $(BIN)/,$(bank)) ## Build the bank too: its region, and a caller (bin/roost dev --region bin/bank-region)

# Without tables for debuggers, which are a third of a binary. Stacks of panics and profiles need none.
.PHONY: images
images: LDFLAGS := -s -w
images: $(addprefix $(BIN)/,coordinator region gateway) ## Build container images of the services (needs Docker)
	@revision=$$(git describe --always --abbrev=40 --dirty --exclude='*' 2>/dev/null || echo unknown); \
	for s in coordinator region gateway; do docker build -q -f deploy/Dockerfile --build-arg SERVICE=$$s \
		--build-arg VERSION=$(or $(VERSION),devel) --build-arg REVISION=$$revision -t roost/$$s . || exit 1; done

.PHONY: dev
dev: build ## Start a cluster on this machine and keep it up (ARGS="--regions 3")
	@exec $(BIN)/roost dev $(ARGS)

.PHONY: test
test: ## Run all tests of all modules
	@$(call lacks,postgres initdb,PostgreSQL,journals and leases in it)
	@$(call lacks,etcd,etcd,discovery and leases in it)
	@$(call lacks,ip,ip (iproute2),networks that are cut)
	@# Not cached: some tests build and run other modules' binaries, which the
	@# cache does not see. Many wait for processes or disks, so twice as many
	@# packages as processors are tested at once.
	go test -count=1 -p $$((2 * $$(getconf _NPROCESSORS_ONLN))) -timeout $(TEST_TIMEOUT) work
	go test -count=1 -tags nextformat -run 'TestUpgradeAndActivate|TestFormats' ./libs/journal ./libs/journal/sqlite ./libs/journal/postgres

.PHONY: race
race: ## Run all tests under the race detector (needs a C compiler)
	CGO_ENABLED=1 go test -race -timeout 30m work

# The code with goroutines: drivers, the link, the journals. The race detector
# takes many times the time of a test, so that random ones are short there.
drivers := ./libs/link ./libs/journal ./libs/journal/commit ./libs/journal/memory ./libs/journal/postgres ./libs/journal/sqlite ./libs/journal/spread ./libs/lease \
	./libs/gossip/agent ./services/coordinator/console ./services/coordinator/server ./services/region/server/... ./services/gateway/server ./libs/router/driver

.PHONY: race-drivers
race-drivers: ## Run the short tests of drivers, link and journals under the race detector (needs a C compiler)
	@# One of them unpacks gigabytes, which is about memory.
	CGO_ENABLED=1 go test -race -short -count=1 -timeout 10m -skip TestGzipBomb $(drivers)

.PHONY: sim
sim: export SIM_CLIMATE = $(CLIMATE)
sim: ## Simulate whole clusters in virtual time (CLIMATE=classic|harsh FIRST=k SEEDS=n, or SEED=k TRACE=1 for one)
	$(if $(SEED),SIM_SEED=$(SEED) $(if $(TRACE),SIM_TRACE=1) go test -count=1 -run 'TestSeed$$' -v,$(if $(FIRST),SIM_FIRST=$(FIRST)) SIM_SEEDS=$(SEEDS) GOGC=800 go test -count=1 -timeout 0 -run 'Seeds' -v) ./e2e/sim

.PHONY: sim-day
sim-day: ## Simulate one cluster for a day: nothing that it holds may grow (HOURS=24 SEED=k)
	SIM_HOURS=$(or $(HOURS),24) SIM_SEED=$(or $(SEED),1) go test -count=1 -timeout 0 -run 'TestDay$$' -v ./e2e/sim

.PHONY: sim-bootstrap
sim-bootstrap: ## Simulate how clusters are formed, 10,000 boots under faults (BOOTS=n, or SEED=k for one with its trace)
	$(if $(SEED),BOOT_SEED=$(SEED) go test -count=1 -run 'TestBoot$$' -v,BOOT_SEEDS=$(or $(BOOTS),10000) go test -count=1 -timeout 0 -run 'TestBoots$$' -v) ./libs/bootstrap

# The overlay has the switches of the mutants, see tools/cmd/mutants; the packages are those that have tests with the build tag.
with_mutants := -tags mutants -overlay $(BIN)/mutants/overlay.json

.PHONY: mutants
mutants: ## Remove one guard after the other and show which seed notices
	@$(call lacks,postgres initdb,PostgreSQL,mutants of its journal)
	@go run ./tools/cmd/mutants
	go test -count=1 -timeout 0 $(with_mutants) -run Mutants -v $$(cat $(BIN)/mutants/packages)

.PHONY: sim-membership
sim-membership: ## Simulate the membership of a large cluster: join, rest, kill, cut off (N=1000)
	GOGC=400 MEMBERSHIP_N=$(or $(N),1000) go test -count=1 -timeout 0 -run TestSize -v ./e2e/membership

.PHONY: explore
explore: ## Search small worlds exhaustively, with up to two faults and two timeouts (STATES=n: stop there)
	EXPLORE=$(or $(STATES),full) go test -count=1 -timeout 0 -run 'TestScopes|TestWholeBound|TestVoid' -v ./e2e/explore

.PHONY: splitbrain
splitbrain: ## Decide on every directed matrix of five nodes, and simulate partitions (SEEDS=n)
	SPLITBRAIN=full SIM_SEEDS=$(SEEDS) go test -count=1 -timeout 0 -run 'TestMatrices|TestPartitions|TestSimulation' -v ./libs/splitbrain

# What go test -run needs for the scenarios RUN= of a test: go test splits a pattern at each | that is not in parentheses, so
# the test comes before each alternative. A RUN with parentheses is left as it is.
open := (
scenarios = $(1)/$(if $(findstring $(open),$(RUN)),$(RUN),$(subst |,|$(1)/,$(RUN)))

.PHONY: e2e
e2e: ## Hurt real processes, judge the histories of their clients and the views of all members; a line per scenario (SET=short RUN=regexp)
	E2E=$(or $(SET),full) go test -count=1 -timeout 2h -run '$(call scenarios,(TestHistories|TestMembership|TestRollouts|TestMoves|TestPlacement|TestEntities|TestBank|TestExplain|TestRestores|TestRepairs))' -v ./e2e/cluster
	$(if $(RUN)$(filter short,$(SET)),,@$(MAKE) --no-print-directory e2e-alerts)

.PHONY: attack
attack: ## Attack real processes with wrong certificates, tokens, bytes, clients and database roles; a line per attack (RUN=regexp)
	ATTACK=1 go test -count=1 -timeout 20m -run '$(call scenarios,TestAttacks)' -v ./e2e/attack

# Modules outside the workspace: Prometheus and Helm would choose the versions of what others depend on, and the protocol
# of a browser is of no use to anybody else.
alone := e2e/alerts e2e/kube e2e/ui

.PHONY: e2e-alerts
e2e-alerts: ## Inject the cause of each alert into real processes, and have Prometheus' own code evaluate the rules and the board (SET=short RUN=regexp)
	cd e2e/alerts && GOWORK=off E2E=$(or $(SET),full) go test -count=1 -timeout 30m $(if $(RUN),-run '$(call scenarios,TestAlerts)') -v .

.PHONY: e2e-ui
e2e-ui: ## Use the dashboard in Chromium while a region is killed; skipped without Chromium (PICTURES=1 writes the pictures of docs/running/dashboard.md)
	cd e2e/ui && GOWORK=off UI_PICTURES=$(if $(PICTURES),$(CURDIR)/docs/running/dashboard) go test -count=1 -timeout 10m -v .

.PHONY: chart
chart: ## Render the Helm chart by Helm's own code, and compare it with deploy/kubernetes, deploy/kubernetes-tls and the binaries
	cd e2e/kube && GOWORK=off go test -count=1 -timeout 20m -run TestChart .

.PHONY: e2e-memory
e2e-memory: ## Give a region ten times the entities that fit into its memory limit (FOR=5m; default 30s)
	E2E_MEMORY=$(or $(FOR),30s) go test -count=1 -timeout 1h -run 'TestMemory$$' -v ./e2e/cluster

.PHONY: e2e-upgrade
e2e-upgrade: ## Upgrade a running cluster to a next release with a made-up format, process by process, in every order, and go back (SET=short RUN=regexp)
	UPGRADE=1 E2E=$(or $(SET),full) go test -count=1 -timeout 1h -run '$(call scenarios,TestUpgrades)' -v ./e2e/cluster

.PHONY: e2e-docker
e2e-docker: servers ## Run whole clusters in containers, found through Consul, etcd, DNS and PostgreSQL; a line per scenario (needs Docker; RUN=regexp)
	E2E=docker go test -count=1 -timeout 2h -run '$(call scenarios,TestBackends)' -v ./e2e/docker

.PHONY: fuzz
fuzz: ## Fuzz every target for a while, one after the other (TIME=30s each, RUN=regexp)
	@any=; for file in $$(grep -rl --exclude-dir=bin --include='*_test.go' '^func Fuzz' . | sort); do \
		for target in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9]*\)(.*/\1/p' $$file | grep -E '$(or $(RUN),.)' || true); do \
			echo "== $$target in $$(dirname $$file)"; any=1; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(or $(TIME),30s) -fuzzminimizetime 1s $$(dirname $$file); done; done; \
	if [ -z "$$any" ]; then echo "no fuzz target matches RUN=$(RUN): nothing was run"; exit 1; fi

.PHONY: bench
bench: $(addprefix $(BIN)/,$(benchmark)) ## Measure Roost and baselines (RUN=suite ROUNDS= LENGTH= JSON=file; DOCS=1 rewrites the figures in docs/inside/, or only the suite's)
	@exec $(BIN)/bench -bin $(BIN) $(if $(RUN),-run "$(RUN)") $(if $(ROUNDS),-rounds "$(ROUNDS)") $(if $(LENGTH),-length "$(LENGTH)") \
		$(if $(JSON),-json "$(JSON)") $(if $(DOCS),-docs docs/inside)

.PHONY: bench-faults
bench-faults: $(addprefix $(BIN)/,$(benchmark)) ## Measure the effects of faults on clients (RUN=suite KILLS= TIMES= RATE= ENTITIES= OVERLOAD= JSON=file; DOCS=1 rewrites the figures in docs/inside/, or only the suite's)
	@exec $(BIN)/bench -bin $(BIN) -faults $(if $(RUN),-run "$(RUN)") $(if $(KILLS),-kills "$(KILLS)") $(if $(TIMES),-times "$(TIMES)") \
		$(if $(RATE),-rate "$(RATE)") $(if $(ENTITIES),-entities "$(ENTITIES)") $(if $(OVERLOAD),-overload "$(OVERLOAD)") \
		$(if $(JSON),-json "$(JSON)") $(if $(DOCS),-docs docs/inside)

.PHONY: bench-scale
bench-scale: $(addprefix $(BIN)/,$(benchmark)) ## Measure ten million idle entities, ten thousand connections and an hour of load (RUN=suite SOAK=1h RATE= ENTITIES= JSON=file; DOCS=1 rewrites the figures in docs/inside/)
	@exec $(BIN)/bench -bin $(BIN) -scale $(if $(RUN),-run "$(RUN)") $(if $(SOAK),-soak "$(SOAK)") $(if $(RATE),-rate "$(RATE)") $(if $(ENTITIES),-entities "$(ENTITIES)") $(if $(JSON),-json "$(JSON)") $(if $(DOCS),-docs docs/inside)

# The programs of peers are modules of their own outside the workspace, because of what they depend on.
.PHONY: bench-peers
bench-peers: $(addprefix $(BIN)/,$(benchmark)) $(addprefix $(BIN)/peers/,$(peers)) ## Measure Roost and its peers, whose modules are downloaded (RUN=suite ROUNDS= LENGTH= ALSO=programs JSON=file; DOCS=1 rewrites the figures in docs/inside/, or only the suite's)
	@exec $(BIN)/bench -bin $(BIN) -peers "$(call commas,$(addprefix $(BIN)/peers/,$(peers)) $(ALSO))" -rounds "$(or $(ROUNDS),3)" $(if $(RUN),-run "$(RUN)") \
		$(if $(LENGTH),-length "$(LENGTH)") $(if $(JSON),-json "$(JSON)") $(if $(DOCS),-docs docs/inside)

.PHONY: $(addprefix $(BIN)/peers/,$(peers))
$(addprefix $(BIN)/peers/,$(peers)): $(BIN)/peers/%:
	cd e2e/peers/$* && GOWORK=off go build -o $@ .

.PHONY: profile
profile: $(addprefix $(BIN)/,$(benchmark)) ## Write processor and allocation profiles of each benchmark (RUN=suite LENGTH=5s TO=bin/profiles)
	@exec $(BIN)/bench -bin $(BIN) -rounds 1 -length $(or $(LENGTH),5s) -profiles "$(or $(TO),$(BIN)/profiles)" $(if $(RUN),-run "$(RUN)")

.PHONY: bench-go
bench-go: ## Run the Go benchmarks of single packages
	go test -run '^$$' -bench . -benchmem work

# ---- size ------------------------------------------------------------------

.PHONY: size
size: ## Print the numbers of lines, words, settings and verbs, with the budget of each
	@go run ./tools/cmd/size

# ---- words -----------------------------------------------------------------

.PHONY: words
words: ## Lower the numbers of tools/words.txt to the present ones (FIND='phrase' prints its lines)
	@go run ./tools/cmd/words $(if $(FIND),-find "$(FIND)",-lower)

# ---- checks ----------------------------------------------------------------

.PHONY: check
check: check-format check-help check-words check-mutants check-vet check-modules check-generated ## Check format, this list, words, mutants, vet, staticcheck, modules, generated code

.PHONY: check-format
check-format: ## Check that gofmt leaves all files as they are
	@echo "== gofmt"
	@bad=$$({ go list -m -f '{{.Dir}}'; echo $(alone) e2e/peers; } | xargs gofmt -l | sort -u); \
		if [ -n "$$bad" ]; then echo "not formatted, run gofmt -w on:"; echo "$$bad"; exit 1; fi

.PHONY: check-words
check-words: ## Check that no phrase of tools/words.txt is used more often than there
	@echo "== words"
	@go run ./tools/cmd/words

.PHONY: check-mutants
check-mutants: ## Check the comments about mutants, their names in tests, and the page of invariants
	@echo "== mutants"
	@go run ./tools/cmd/mutants -check

# The binaries are targets, too, but not ones to remember.
.PHONY: check-help
check-help: ## Check that make help lists every target
	@echo "== make help"
	@diff <(sed -n 's/^\.PHONY: *//p' $(firstword $(MAKEFILE_LIST)) | grep -v '[$$]' | tr ' ' '\n' | sort) \
		<($(MAKE) --no-print-directory help | awk '{ print $$1 }' | sort) \
		|| { echo "< a target without a line in make help; > a line there without .PHONY"; exit 1; }

.PHONY: check-vet
check-vet: $(BIN)/staticcheck ## Run go vet and staticcheck
	@echo "== go vet"
	@go vet work
	@go vet -tags nextformat ./libs/journal/... ./libs/journal/sqlite ./libs/journal/postgres/... ./libs/link
	@go run ./tools/cmd/mutants
	@go vet $(with_mutants) $$(cat $(BIN)/mutants/packages)
	@echo "== staticcheck"
	@$(BIN)/staticcheck work

# What ships is what a module's own go.mod says, so the workspace is off.
.PHONY: check-modules
check-modules: export GOWORK = off
check-modules: ## Check that every go.mod is tidy, and build each service alone
	@for dir in $$(GOWORK= go list -m -f '{{.Dir}}') $(alone); do \
		echo "== go.mod of $${dir#$(CURDIR)/}"; (cd "$$dir" && go mod tidy -diff); done
	@for dir in services/*/; do echo "== build of $$dir alone"; (cd "$$dir" && go build ./...); done

.PHONY: check-generated
check-generated: ## Check that the generated code matches the .proto files (needs protoc)
	@echo "== generated code"
	@if [ "$$(protoc --version 2>/dev/null)" != "libprotoc $(PROTOC_VERSION)" ]; then \
		echo "$(if $(filter true,$(CI)),missing,SKIPPED): no protoc $(PROTOC_VERSION) here (Debian 12: apt-get install protobuf-compiler)"; \
		exit $(if $(filter true,$(CI)),1,0); fi; \
	out=$$(mktemp -d); trap 'rm -rf "$$out"' EXIT; \
	$(MAKE) --no-print-directory generate OUT="$$out"; \
	diff <(cd proto && find . -name '*.pb.go' -o -name '*.twirp.go' | sort) <(cd "$$out" && find . -name '*.go' | sort) \
		|| { echo "other files than the .proto files generate: run make generate"; exit 1; }; \
	cd "$$out"; for f in $$(find . -name '*.go'); do diff -u "$(CURDIR)/proto/$$f" "$$f" \
		|| { echo "out of date: run make generate"; exit 1; }; done

.PHONY: tidy
tidy: export GOWORK = off
tidy: ## Tidy the go.mod of every module
	@for dir in $$(GOWORK= go list -m -f '{{.Dir}}') $(alone); do (cd "$$dir" && go mod tidy); done

# ---- generated code --------------------------------------------------------

.PHONY: settings
settings: ## Write docs/running/settings.md from what --help of the services says
	@WRITE_SETTINGS=1 go test -count=1 -run 'TestSettingsPage$$' ./cli/cmd/roost

.PHONY: errors
errors: ## Write docs/using/errors.md from the numbers of libs/errornumber
	@WRITE_ERRORS=1 go test -count=1 -run 'TestErrorsPage$$' ./cli/cmd/roost

.PHONY: invariants
invariants: ## Write docs/inside/invariants.md from the comments at the guards
	@go run ./tools/cmd/mutants -page

OUT ?= $(CURDIR)/proto

.PHONY: generate
generate: $(BIN)/protoc-gen-go $(BIN)/protoc-gen-twirp ## Generate Go from the .proto files (needs Debian's protobuf-compiler)
	@cd proto && for dir in $$(find roost -name '*.proto' -printf '%h\n' | sort -u); do \
		PATH="$(BIN):$$PATH" protoc -I . --go_out="$(OUT)" --go_opt=paths=source_relative \
			--twirp_out="$(OUT)" --twirp_opt=paths=source_relative $$dir/*.proto || exit 1; done

# Development tools at the versions of tools/go.mod.
$(addprefix $(BIN)/,$(tools)): tools/go.mod tools/go.sum
	@mkdir -p $(BIN)
	@cd tools && GOWORK=off go build -o $(BIN)/ tool && touch $(addprefix $(BIN)/,$(tools))

# Servers that tests run; a module of their own each, outside the workspace, so
# that their dependencies choose no versions of ours.
.PHONY: servers
servers: $(addprefix $(BIN)/,$(servers)) ## Build the servers that tests run: Consul (minutes, once); etcd is Debian's etcd-server

$(addprefix $(BIN)/,$(servers)): $(BIN)/%: tools/servers/%/go.mod tools/servers/%/go.sum
	@mkdir -p $(BIN)
	cd tools/servers/$* && GOWORK=off go build -o $(BIN)/ tool && touch $@

# ---- supply chain -----------------------------------------------------------

released := coordinator region gateway roost

.PHONY: sbom
sbom: $(addprefix $(BIN)/,$(released)) ## Write an SBOM of the released binaries (CycloneDX, with licences) into bin/sbom (TO=)
	@go run ./tools/cmd/sbom -to "$(or $(TO),$(BIN)/sbom)" $^
	@echo "in $(or $(TO),$(BIN)/sbom)"

# A module of its own outside the workspace, as the servers are.
$(BIN)/govulncheck: tools/vulncheck/go.mod tools/vulncheck/go.sum
	@mkdir -p $(BIN)
	cd tools/vulncheck && GOWORK=off go build -o $(BIN)/ tool && touch $@

# It is no part of what CI runs: it needs the database, and the database changes without a change here.
.PHONY: vulncheck
vulncheck: $(BIN)/govulncheck $(addprefix $(BIN)/,$(released)) ## Look for known vulnerabilities in the released binaries; needs their database (DB=file:///path/of/a/copy)
	@for program in $(released); do echo "== $$program"; code=0; \
		$(BIN)/govulncheck $(if $(DB),-db "$(DB)") -mode binary $(BIN)/$$program || code=$$?; \
		case $$code in 0) ;; \
		3) echo "$$program has vulnerabilities that are known: update what is named above"; exit 1 ;; \
		*) echo "nothing was checked: the database was not read (see above). With DB=file:///path, a copy of it is"; exit 1 ;; esac; done

# ---- publishing ------------------------------------------------------------

.PHONY: module-proxy
module-proxy: ## Write all modules as a version into a module proxy of files (VERSION=v0.1.0 TO=bin/proxy)
	@go run ./tools/cmd/moduleproxy -version "$(VERSION)" -to "$(or $(TO),$(BIN)/proxy)" -time "$$(git log -1 --format=%cI)"
	@echo "GOPROXY=file://$(abspath $(or $(TO),$(BIN)/proxy)),$$(go env GOPROXY) GONOSUMDB=github.com/roost-cluster go get github.com/roost-cluster/roost/sdk@$(VERSION)"

.PHONY: clean
clean: ## Remove bin/
	rm -rf $(BIN)
